// Executes one statement after the other at a PostgreSQL, in a thread of its own, until it is
// stopped; what fails (a key that is there already, a deadlock) is gone on from in a new session.
//
// Thread rule: done() is safe from any thread, the rest belongs to one. The PostgreSQL outlives it.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

class StatementWriter {
 public:
  // `next` gives the statement behind so many; it is called by the thread.
  StatementWriter(const LivePostgres& postgres, std::function<std::string(int done)> next,
                  std::chrono::milliseconds pause = {})
      : thread_([this, &postgres, next = std::move(next), pause] {
          auto session = postgres.Connect();
          while (!stopping_) {
            if (!session.ok() || !(*session)->Exec(next(done_)).ok()) session = postgres.Connect();
            ++done_;
            if (pause.count() > 0) poll(nullptr, 0, static_cast<int>(pause.count()));
          }
        }) {}
  ~StatementWriter() { Stop(); }
  void Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int done() const { return done_; }

 private:
  std::atomic<bool> stopping_ = false;
  std::atomic<int> done_ = 0;
  std::thread thread_;
};

}  // namespace tidemark::testing
