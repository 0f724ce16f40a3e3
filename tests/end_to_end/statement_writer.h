// Executes one statement after the other at a PostgreSQL, with a pause behind each, in a thread of
// its own, until it is stopped; what fails (a key that is there already, a deadlock) is gone on
// from in a new session.
//
// Thread rule: done() is safe from any thread, the rest belongs to one. The PostgreSQL outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

class StatementWriter {
 public:
  // As fast as they can, a few of them leave a machine nothing to read with, and what they wrote
  // costs everybody behind them as much again.
  static constexpr std::chrono::milliseconds kPause{5};

  // `next` gives the statement behind so many that were tried; it is called by the thread.
  StatementWriter(const LivePostgres& postgres, std::function<std::string(int tried)> next,
                  std::chrono::milliseconds pause = kPause)
      : thread_([this, &postgres, next = std::move(next), pause] { Run(postgres, next, pause); }) {}
  ~StatementWriter() { Stop(); }
  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  // Statements that the PostgreSQL carried out.
  int done() const { return done_; }

 private:
  // Between two tries to connect to a server that is down.
  static constexpr std::chrono::milliseconds kConnectPause{50};

  void Run(const LivePostgres& postgres, const std::function<std::string(int)>& next,
           std::chrono::milliseconds pause) {
    auto session = postgres.Connect();
    int tried = 0;
    do {
      if (session.ok() && (*session)->Exec(next(tried++)).ok()) {
        ++done_;
      } else {
        session = postgres.Connect();
      }
    } while (!IsStoppedWithin(session.ok() ? pause : kConnectPause));
  }
  bool IsStoppedWithin(std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    return stopped_.wait_for(lock, pause, [this] { return stopping_; });
  }

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;  // protected by mutex_
  std::atomic<int> done_ = 0;
  std::thread thread_;
};

}  // namespace tidemark::testing
