// Asks a server for its status again and again, and measures every answer. Beside it runs a
// control: a call that looks at no feed. What holds up both is the machine; what holds up the
// status alone is the server.
//
// Thread rule: last() from any thread; the rest by the owner, after Stop.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {

class StatusClock {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit StatusClock(const std::string& server);
  ~StatusClock() { Stop(); }
  StatusClock(const StatusClock&) = delete;
  StatusClock& operator=(const StatusClock&) = delete;

  void Stop();
  // The newest answer.
  v1::GetStatusResponse last() const;

  size_t answers() const { return status_calls_.size(); }
  // What each answer that was later than `bound` was, unless the control, at that time, was as
  // late; and each call that failed.
  std::vector<std::string> Late(Milliseconds bound) const;
  // "612 answers, half of them within 1 ms, the slowest 9 ms; control: the slowest 7 ms"
  std::string Summary() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    Clock::time_point begin;
    Milliseconds took{};
    std::string error;
  };

  void Run(const std::string& server, bool control, std::vector<Call>* calls);
  static Milliseconds Slowest(const std::vector<Call>& calls);

  mutable std::mutex mutex_;
  bool stopping_ = false;            // guarded by mutex_
  v1::GetStatusResponse last_;       // guarded by mutex_
  std::vector<Call> status_calls_;   // of its thread, until that is joined
  std::vector<Call> control_calls_;  // the same
  std::thread status_thread_;
  std::thread control_thread_;
};

}  // namespace tidemark::testing
