// SIGINT and SIGTERM as a request to end in order. A second request ends the process at
// once; signals within a second are one request.
//
// REQUIRES: made before any other thread, so that all inherit the blocked signals. One per process.
#pragma once

#include <signal.h>

#include <functional>
#include <mutex>
#include <thread>

namespace tidemark::command {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Readable once a signal came; for poll.
  int fd() const { return event_; }
  // Called on another thread when a signal comes, or at once when one came already.
  void OnSignal(std::function<void()> action);
  // Nothing is called any more once this returns.
  void Forget() { OnSignal(nullptr); }

 private:
  void Wait();

  sigset_t signals_;
  const int event_;
  std::mutex mutex_;
  bool signalled_ = false;        // guarded by mutex_
  std::function<void()> action_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tidemark::command
