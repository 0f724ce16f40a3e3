// Keeps the server from giving up a session whose owner is busy elsewhere.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace tidemark::capture::postgres {

// A thread that calls `reply` about every `period`, but only while it can take `session` without
// waiting: whoever holds that answers the server himself. `session` must outlive the keeper; the
// keeper may be destroyed with `session` held.
class StandbyKeeper {
 public:
  StandbyKeeper(std::mutex* session, absl::Duration period, std::function<void()> reply);
  ~StandbyKeeper();
  StandbyKeeper(const StandbyKeeper&) = delete;
  StandbyKeeper& operator=(const StandbyKeeper&) = delete;

 private:
  void Run();

  std::mutex* session_;
  const absl::Duration period_;
  const std::function<void()> reply_;
  std::mutex mutex_;
  std::condition_variable stop_requested_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tidemark::capture::postgres
