#include "server/periodic_task.h"

#include <utility>

namespace tidemark {

PeriodicTask::PeriodicTask(absl::Duration period, std::function<void()> work)
    : period_(period), work_(std::move(work)), thread_([this] { Run(); }) {}

PeriodicTask::~PeriodicTask() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_requested_.notify_all();
  thread_.join();
}

void PeriodicTask::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    work_();
    lock.lock();
    stop_requested_.wait_for(lock, absl::ToChronoNanoseconds(period_),
                             [this] { return stopping_; });
  }
}

}  // namespace tidemark
