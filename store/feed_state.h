// What a feed's writer publishes to its readers: the boundaries and the log's size. Safe from any
// thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "proto/position.h"

namespace tidemark::store {

struct FeedBoundaries {
  Position head;
  Position synced;
  Position floor;
  Position folded;
  // Commit time of the last trimmed transaction, 0 when none was.
  int64_t floor_commit_time_us = 0;
  bool snapshot_whole = false;
  // Bytes of the log since the feed began: in all, and up to the other boundaries.
  uint64_t log_bytes_written = 0;
  uint64_t log_bytes_synced = 0;
  uint64_t log_bytes_trimmed = 0;
  uint64_t log_bytes_folded = 0;
  // Transactions, counted as in LogSample: in all, and up to the floor.
  uint64_t log_transactions_written = 0;
  uint64_t log_transactions_trimmed = 0;
};

class FeedState {
 public:
  FeedBoundaries Get() const {
    std::lock_guard lock(mutex_);
    return boundaries_;
  }

  // `change` takes FeedBoundaries&. Wakes everyone in WaitFor.
  template <typename Change>
  void Update(Change change) {
    {
      std::lock_guard lock(mutex_);
      change(boundaries_);
    }
    changed_.notify_all();
  }

  // Counts appends that readers can see. A reader takes it before it opens an iterator; an equal
  // value later means that nothing has come since.
  uint64_t appends() const { return appends_.load(std::memory_order_acquire); }
  void CountAppend() { appends_.fetch_add(1, std::memory_order_release); }

  // Until `done(boundaries)` or `timeout` has passed; the last result of `done`.
  template <typename Duration, typename Done>
  bool WaitFor(Duration timeout, Done done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return done(boundaries_); });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  FeedBoundaries boundaries_;  // protected by mutex_
  std::atomic<uint64_t> appends_ = 0;
};

}  // namespace tidemark::store
