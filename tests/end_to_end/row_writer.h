// Changes rows of public.big (id int primary key, v int, note text) at random, as fast as it can or
// with a pause behind every transaction, on a thread of its own: updates, deletes, rows that come
// again, and changes of the key across the place where a reading stands, either way.
//
// Thread rule: one thread at a time.
#pragma once

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "tests/testing/live_postgres.h"

namespace tidemark::testing {

class RowWriter {
 public:
  RowWriter(const LivePostgres& postgres, int rows, uint64_t seed,
            std::chrono::milliseconds pause = {})
      : thread_([this, &postgres, rows, seed, pause] {
          std::mt19937_64 random(seed);
          auto session = postgres.Connect();
          while (!stopping_) {
            const int id = static_cast<int>(random() % rows);
            std::string sql;
            switch (random() % 8) {
              case 0:
                sql = fmt::format("delete from big where id = {}", id);
                break;
              case 1:  // Across the place where the reading stands, either way.
                sql = fmt::format(
                    "update big set id = {0} where id = {1} and not exists (select from big where "
                    "id = {0})",
                    static_cast<int>(random() % rows), id);
                break;
              case 2:
                sql = fmt::format(
                    "begin; delete from big where id = {0}; insert into big values ({0}, 0, "
                    "'again'); commit",
                    id);
                break;
              default:
                sql =
                    fmt::format("update big set v = v + 1 where id between {} and {}", id, id + 3);
            }
            if (!session.ok() || !(*session)->Exec(sql).ok()) session = postgres.Connect();
            ++done_;
            poll(nullptr, 0, static_cast<int>(pause.count()));
          }
        }) {}
  ~RowWriter() { Stop(); }
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
