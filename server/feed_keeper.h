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

  // An order waits that takes a closed source.
  bool HasOrders() const { return feed_.orders().waiting(); }
  // Carries out the orders that came since. REQUIRES: the source is closed.
  void Serve();

 private:
  absl::StatusOr<v1::DropFeedResponse> Drop(bool keep_slot);
  absl::StatusOr<capture::DropOutcome> DropAtSource(bool keep_slot);
  absl::Status Note(const std::optional<v1::PostgresCheckpoint>& left);
  absl::Status Observe(IngestStep step);
  // Where no crash came in between, the feed is whole again.
  absl::Status TakeBack(const absl::Status& why);

  Feed& feed_;
  EventLog& log_;
  const std::function<absl::Status(IngestStep)> observe_;
  bool noted_ = false;
  // The observer's error: nothing more is written.
  bool crashed_ = false;
};

}  // namespace tidemark
