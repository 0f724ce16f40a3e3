#include "store/fold_thread.h"

#include <algorithm>
#include <utility>

namespace tidemark::store {

FoldThread::FoldThread(std::function<absl::StatusOr<bool>()> fold, FeedState* state)
    : fold_(std::move(fold)), state_(*state), thread_([this] { Run(); }) {}

FoldThread::~FoldThread() {
  stop_ = true;
  state_.Update([](FeedBoundaries&) {});
  thread_.join();
}

absl::Status FoldThread::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

bool FoldThread::Wait(std::chrono::milliseconds time, bool wake_on_tail) {
  state_.WaitFor(time, [&](const FeedBoundaries& now) {
    const uint64_t tail =
        now.log_bytes_synced - std::min(now.log_bytes_synced, now.log_bytes_folded);
    return stop_ || (wake_on_tail && tail >= kFoldTailBytes);
  });
  return stop_;
}

void FoldThread::Run() {
  std::chrono::milliseconds retry = kFoldRetryMin;
  for (;;) {
    const absl::StatusOr<bool> folded = fold_();
    {
      std::lock_guard lock(mutex_);
      status_ = folded.status();
    }
    if (!folded.ok()) {
      if (Wait(retry, /*wake_on_tail=*/false)) return;
      retry = std::min<std::chrono::milliseconds>(2 * retry, kFoldRetryMax);
      continue;
    }
    retry = kFoldRetryMin;
    if (Wait(kFoldDelay, /*wake_on_tail=*/true)) return;
  }
}

}  // namespace tidemark::store
