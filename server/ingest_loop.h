// The product: the one loop that carries a source's transactions into the store and to the readers.
//
//   read → fill → append → publish → sync → confirm        where the source yields again, byte for
//                                                          byte, what was not confirmed
//   read → fill → append → sync → publish → confirm        everywhere else
//
// Filling completes what the source left out of a change from the rows before it (row_filler.h).
// Append survives kill -9, sync survives power loss; only what is synced is confirmed.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/break_keeper.h"
#include "server/event_log.h"
#include "server/event_writer.h"
#include "server/feed.h"
#include "server/feed_keeper.h"
#include "server/ingest_step.h"
#include "server/stop_keeper.h"
#include "server/store_rows.h"

namespace tidemark {

// Called by the loop's thread at every step. An error ends the loop right there, as a crash would:
// nothing more is written, published, synced or confirmed.
using IngestObserver = std::function<absl::Status(IngestStep)>;

// Thread rule: Run on a thread of its own; Stop from any thread. The feed and the log are lent.
class IngestLoop {
 public:
  IngestLoop(Feed& feed, EventLog& log, IngestObserver observer = nullptr);

  // Until Stop, or until the feed is dropped.
  void Run();
  // Makes Run return soon: at once when it waits, else when the source returns. May be repeated.
  void Stop();

 private:
  // From opening the source to the error that ends its connection; OK when stopped.
  absl::Status Follow();
  absl::Status Open();
  absl::StatusOr<capture::CaptureBatch> Read();
  // Until another order comes, or the server stops.
  void RestFinished();
  // The same for a feed that was paused.
  void RestPaused();
  // Orders for where to stop, while the source is closed.
  void ServeStopClosed();
  // Until a person says what to do about what stopped capture; false when the server stops.
  bool RestFailed(const absl::Status& error);
  absl::Status Ingest(capture::CaptureBatch batch);
  void Publish(WrittenBatch written);
  // What is to be known once the feed is in its next generation.
  absl::Status BeginGeneration(const v1::GapRecord& gap);
  absl::Status Observe(IngestStep step);

  bool stopping() const;
  // The server stops, or the feed is dropped.
  bool ends() const { return stopping() || feed_.dropped() || crashed_; }
  // What an error does: true when the source is to be opened again.
  bool WaitToRetry(const absl::Status& error);
  bool WaitUntil(absl::Time until);

  Feed& feed_;
  EventLog& log_;
  const IngestObserver observer_;
  // As the source says that is open now: a feed may be moved to another kind.
  bool publishes_before_sync_ = false;
  EventWriter writer_;
  StoreRows known_rows_;
  StopKeeper stop_;
  BreakKeeper breaks_;
  FeedKeeper keeper_;
  uint32_t failures_ = 0;
  std::mt19937_64 random_;

  mutable std::mutex mutex_;
  bool stopping_ = false;
  // The observer's error: the loop is dead.
  bool crashed_ = false;
};

}  // namespace tidemark
