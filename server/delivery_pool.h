// The few threads that move streams on: each woken stream runs one bounded step at a time, in turn.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace tidemark {

class DeliveryPool;

// Something that moves in steps. Owned by shared_ptr; the pool holds it only while it is queued,
// running or armed with a time.
class DeliveryTask {
 public:
  virtual ~DeliveryTask() = default;

 protected:
  // One bounded step, on a thread of the pool, never two at once. Returns when to be called again
  // at the latest, even if nobody wakes it: InfinitePast: at once (behind the others in the queue),
  // InfiniteFuture: never.
  virtual absl::Time RunStep(absl::Time now) = 0;

 private:
  friend class DeliveryPool;
  enum class Phase { kIdle, kQueued, kRunning, kRunningWoken };
  // Both guarded by the pool's mutex.
  Phase phase_ = Phase::kIdle;
  // When the pool's clock will wake it; one entry at most, moved only to an earlier time.
  absl::Time armed_ = absl::InfiniteFuture();
};

// Thread rule: Wake is safe from any thread and never waits for a step. Stop from one thread; no
// step runs when it returned.
class DeliveryPool {
 public:
  explicit DeliveryPool(size_t threads);
  ~DeliveryPool();

  // The task runs a step soon. Waking it again before that changes nothing; waking it while it runs
  // makes it run once more.
  void Wake(std::shared_ptr<DeliveryTask> task);
  void Stop();

 private:
  struct Timed {
    absl::Time when;
    std::shared_ptr<DeliveryTask> task;
    bool operator>(const Timed& other) const { return when > other.when; }
  };

  void RunThread();
  void RunTask(std::unique_lock<std::mutex>& lock);
  void QueueDue(absl::Time now);
  void Enqueue(std::shared_ptr<DeliveryTask> task);

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<DeliveryTask>> queue_;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed_;
  size_t sleeping_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidemark
