// The thread that keeps a feed's rows behind its log. Owned by the feed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/feed_state.h"

namespace tidemark::store {

// A tail of this size is folded at once, a smaller one after kFoldDelay.
inline constexpr uint64_t kFoldTailBytes = uint64_t{8} << 20;
inline constexpr auto kFoldDelay = std::chrono::seconds(1);
// Between two tries of a fold that fails.
inline constexpr auto kFoldRetryMin = std::chrono::seconds(1);
inline constexpr auto kFoldRetryMax = std::chrono::seconds(60);

class FoldThread {
 public:
  // `fold` as FeedStore::FoldOnce. Both outlive the thread.
  FoldThread(std::function<absl::StatusOr<bool>()> fold, FeedState* state);
  // Waits for a fold that is under way.
  ~FoldThread();

  // The last fold's; any thread.
  absl::Status status() const;

 private:
  void Run();
  // True: stop.
  bool Wait(std::chrono::milliseconds time, bool wake_on_tail);

  const std::function<absl::StatusOr<bool>()> fold_;
  FeedState& state_;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  absl::Status status_;  // protected by mutex_
  std::thread thread_;
};

}  // namespace tidemark::store
