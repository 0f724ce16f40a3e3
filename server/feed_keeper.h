// Carries out what is ordered for a feed as a whole.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/event_log.h"
#include "server/feed.h"
#include "server/ingest_step.h"

namespace tidemark {

// Thread rule: belongs to the thread of the ingest loop. Feed and log are lent.
class FeedKeeper {
 public:
  // `observe` as IngestLoop::Observe.
  FeedKeeper(Feed& feed, EventLog& log, std::function<absl::Status(IngestStep)> observe)
      : feed_(feed), log_(log), observe_(std::move(observe)) {}

  bool HasOrders() const { return !feed_.orders().empty(); }
  // While the source is read: true when an order waits that takes a closed one.
  bool WantsClosed();
  // Carries out the orders that came since. REQUIRES: the source is closed.
  void Serve();
  // By order, over restarts too.
  bool paused() const { return feed_.store().checkpoint().paused(); }
  // Whether capture was ordered to go on since this was last asked.
  bool TakeResumed() { return std::exchange(resumed_, false); }

 private:
  absl::StatusOr<v1::DropFeedResponse> Drop(bool keep_slot);
  absl::StatusOr<capture::DropOutcome> DropAtSource(bool keep_slot);
  absl::Status Note(const std::optional<v1::PostgresCheckpoint>& left);
  absl::Status Observe(IngestStep step);
  // Durable when it returns.
  absl::Status SetPaused(bool paused);
  // Where no crash came in between, the feed is whole again.
  absl::Status TakeBack(const absl::Status& why);

  Feed& feed_;
  EventLog& log_;
  const std::function<absl::Status(IngestStep)> observe_;
  bool noted_ = false;
  bool resumed_ = false;
  // The observer's error: nothing more is written.
  bool crashed_ = false;
};

}  // namespace tidemark
