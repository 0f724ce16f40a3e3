// Sessions that change tables at random, as an application would: single rows and many, updates of
// the same row, key changes, deletes, rolled back savepoints, rolled back transactions. What was
// committed is for an oracle to say: a session that breaks in mid-commit does not know, and opens a
// new one.
//
// Thread rule: one thread at a time; each writer runs on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

class Writers {
 public:
  // `count` writers on tables public.w0, public.w1, … (made here) and public.shared. They rest
  // until AllowTransactions.
  Writers(const LivePostgres& postgres, int count, uint64_t seed);
  ~Writers() { Stop(); }

  static std::string CreateTables(int count);

  // So many more transactions may be tried, by all writers together.
  void AllowTransactions(int count);
  // True when all that was allowed was tried.
  bool IsIdle();
  uint64_t committed() const { return committed_; }
  void Stop();

 private:
  void Write(int writer, uint64_t seed);
  bool TakeTurn();
  void EndTurn();

  const LivePostgres& postgres_;
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int allowed_ = 0;
  int busy_ = 0;
  bool stopping_ = false;
  std::atomic<uint64_t> committed_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tidemark::testing
