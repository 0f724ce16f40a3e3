#include "server/read_wake.h"

namespace tidemark {

void ReadWake::Wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
  if (reading_) interrupt_();
}

void ReadWake::Answer() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
}

bool ReadWake::BeginRead() {
  const std::lock_guard lock(mutex_);
  reading_ = !woken_;
  return reading_;
}

void ReadWake::EndRead() {
  const std::lock_guard lock(mutex_);
  reading_ = false;
}

bool ReadWake::WaitUntil(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  if (deadline == absl::InfiniteFuture()) {
    changed_.wait(lock, [this] { return woken_; });
    return true;
  }
  return changed_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return woken_; });
}

}  // namespace tidemark
