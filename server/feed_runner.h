// The thread of one feed: a source that is stuck holds up nobody but itself.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "server/ingest_loop.h"

namespace tidemark {

// Thread rule: made, stopped and destroyed by one thread. Runs from construction on.
class FeedRunner {
 public:
  FeedRunner(Feed& feed, EventLog& log, IngestObserver observer = nullptr);
  // REQUIRES: StopBefore returned true, or the loop ends by itself.
  ~FeedRunner();

  // Asks the loop to end; returns at once.
  void RequestStop();
  // False when the source did not let go in time.
  bool StopBefore(absl::Time deadline);

 private:
  IngestLoop loop_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tidemark
