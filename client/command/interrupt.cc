#include "client/command/interrupt.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <utility>

namespace tidemark::command {
namespace {

// Ends the waiting thread; nobody else sends it.
constexpr int kEndSignal = SIGUSR1;

// Who ends a command for another (timeout, npm) signals it and its process group, so that one
// request arrives twice.
constexpr std::chrono::seconds kSameRequest{1};

}  // namespace

Interrupt::Interrupt() : event_(eventfd(0, EFD_CLOEXEC)) {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, kEndSignal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { Wait(); });
}

Interrupt::~Interrupt() {
  pthread_kill(thread_.native_handle(), kEndSignal);
  thread_.join();
  close(event_);
}

void Interrupt::OnSignal(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  action_ = std::move(action);
  if (signalled_ && action_) action_();
}

void Interrupt::Wait() {
  std::chrono::steady_clock::time_point first;
  while (true) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0 || signal == kEndSignal) return;
    const auto now = std::chrono::steady_clock::now();
    std::lock_guard lock(mutex_);
    if (signalled_ && now - first < kSameRequest) continue;
    if (signalled_) _exit(128 + signal);
    signalled_ = true;
    first = now;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
    if (action_) action_();
  }
}

}  // namespace tidemark::command
