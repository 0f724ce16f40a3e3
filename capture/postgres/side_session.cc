#include "capture/postgres/side_session.h"

#include "absl/time/clock.h"

namespace tidemark::capture::postgres {
namespace {

constexpr absl::Duration kSideConnectTimeout = absl::Seconds(15);

}  // namespace

SideSession::SideSession(Target target, std::function<void()> done)
    : target_(std::move(target)), done_(std::move(done)), thread_([this] { Work(); }) {}

SideSession::~SideSession() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  // Stays raised: whatever the task waits for next ends as well.
  interruption_.Raise();
  thread_.join();
}

void SideSession::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_all();
}

absl::StatusOr<Connection*> SideSession::Session() {
  if (session_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Connection>> opened = Connection::Open(
        target_, Connection::Kind::kSql, &interruption_, absl::Now() + kSideConnectTimeout);
    if (!opened.ok()) return opened.status();
    session_ = *std::move(opened);
  }
  return session_.get();
}

void SideSession::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || task_ != nullptr; });
    if (ending_) return;
    const Task task = std::exchange(task_, nullptr);
    lock.unlock();
    if (!task(Session())) session_.reset();
    done_();
    lock.lock();
  }
}

}  // namespace tidemark::capture::postgres
