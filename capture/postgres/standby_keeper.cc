#include "capture/postgres/standby_keeper.h"

#include <utility>

namespace tidemark::capture::postgres {

StandbyKeeper::StandbyKeeper(std::mutex* session, absl::Duration period,
                             std::function<void()> reply)
    : session_(session), period_(period), reply_(std::move(reply)), thread_([this] { Run(); }) {}

StandbyKeeper::~StandbyKeeper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_requested_.notify_all();
  thread_.join();
}

void StandbyKeeper::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_requested_.wait_for(lock, absl::ToChronoMilliseconds(period_),
                                   [this] { return stopping_; })) {
    lock.unlock();
    if (std::unique_lock session(*session_, std::try_to_lock); session.owns_lock()) reply_();
    lock.lock();
  }
}

}  // namespace tidemark::capture::postgres
