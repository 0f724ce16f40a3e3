#include "server/feed_runner.h"

#include <chrono>
#include <utility>

namespace tidemark {
namespace {

// An interrupt that comes just before a source begins to wait is lost on it: it is repeated.
constexpr std::chrono::milliseconds kInterruptPeriod(50);

}  // namespace

FeedRunner::FeedRunner(Feed& feed, EventLog& log, IngestObserver observer)
    : loop_(feed, log, std::move(observer)), thread_([this] {
        loop_.Run();
        std::lock_guard lock(mutex_);
        ended_ = true;
        ended_changed_.notify_all();
      }) {}

FeedRunner::~FeedRunner() {
  loop_.Stop();
  thread_.join();
}

void FeedRunner::RequestStop() { loop_.Stop(); }

bool FeedRunner::StopBefore(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (absl::Now() >= deadline) return false;
    lock.unlock();
    loop_.Stop();
    lock.lock();
    ended_changed_.wait_for(lock, kInterruptPeriod, [this] { return ended_; });
  }
  return true;
}

}  // namespace tidemark
