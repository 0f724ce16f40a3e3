// Something that is done again and again on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace tidemark {

// Thread rule: made and destroyed by one thread; `work` runs on the task's own. The first run is at
// once; the destructor waits for a run in progress.
class PeriodicTask {
 public:
  PeriodicTask(absl::Duration period, std::function<void()> work);
  ~PeriodicTask();
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

 private:
  void Run();

  const absl::Duration period_;
  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable stop_requested_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tidemark
