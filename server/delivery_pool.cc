#include "server/delivery_pool.h"

#include <utility>

#include "absl/time/clock.h"

namespace tidemark {

DeliveryPool::DeliveryPool(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { RunThread(); });
}

DeliveryPool::~DeliveryPool() { Stop(); }

void DeliveryPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  // Tasks may own what owns the pool's other users: let them go outside the lock.
  std::deque<std::shared_ptr<DeliveryTask>> queue;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> timed;
  const std::lock_guard lock(mutex_);
  queue_.swap(queue);
  timed_.swap(timed);
}

void DeliveryPool::Wake(std::shared_ptr<DeliveryTask> task) {
  const std::lock_guard lock(mutex_);
  Enqueue(std::move(task));
}

void DeliveryPool::Enqueue(std::shared_ptr<DeliveryTask> task) {
  if (stopping_) return;
  switch (task->phase_) {
    case DeliveryTask::Phase::kIdle:
      task->phase_ = DeliveryTask::Phase::kQueued;
      queue_.push_back(std::move(task));
      if (sleeping_ > 0) work_.notify_one();
      break;
    case DeliveryTask::Phase::kRunning:
      task->phase_ = DeliveryTask::Phase::kRunningWoken;
      break;
    case DeliveryTask::Phase::kQueued:
    case DeliveryTask::Phase::kRunningWoken:
      break;
  }
}

void DeliveryPool::QueueDue(absl::Time now) {
  while (!timed_.empty() && timed_.top().when <= now) {
    Timed due = timed_.top();
    timed_.pop();
    // An entry that was replaced by an earlier one.
    if (due.when != due.task->armed_) continue;
    due.task->armed_ = absl::InfiniteFuture();
    Enqueue(std::move(due.task));
  }
}

void DeliveryPool::RunTask(std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<DeliveryTask> task = std::move(queue_.front());
  queue_.pop_front();
  task->phase_ = DeliveryTask::Phase::kRunning;
  lock.unlock();
  const absl::Time again = task->RunStep(absl::Now());
  lock.lock();
  const bool woken = task->phase_ == DeliveryTask::Phase::kRunningWoken;
  task->phase_ = DeliveryTask::Phase::kIdle;
  if (woken || again == absl::InfinitePast()) {
    Enqueue(std::move(task));
  } else if (again < task->armed_) {
    const bool first = timed_.empty() || again < timed_.top().when;
    task->armed_ = again;
    timed_.push({again, std::move(task)});
    // Another thread may sleep until a later time.
    if (first && sleeping_ > 0) work_.notify_one();
  }
  if (task) {
    // The last reference may go here, and with it what the task owns: not under the lock.
    lock.unlock();
    task.reset();
    lock.lock();
  }
}

void DeliveryPool::RunThread() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!timed_.empty()) QueueDue(absl::Now());
    if (!queue_.empty()) {
      RunTask(lock);
      continue;
    }
    ++sleeping_;
    if (timed_.empty()) {
      work_.wait(lock);
    } else {
      work_.wait_until(lock, absl::ToChronoTime(timed_.top().when));
    }
    --sleeping_;
  }
}

}  // namespace tidemark
