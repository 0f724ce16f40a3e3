#include "tests/end_to_end/writers.h"

#include <fmt/format.h>

namespace tidemark::testing {
namespace {

constexpr int kKeys = 200;

class RandomSql {
 public:
  RandomSql(int writer, uint64_t seed) : random_(seed), own_(fmt::format("w{}", writer)) {}

  std::string Transaction() {
    std::string sql = "begin;";
    const int statements = 1 + Below(4);
    for (int i = 0; i < statements; ++i) sql += Statement();
    if (Below(8) == 0) sql += "savepoint s;" + Statement() + "rollback to s;";
    return sql + (Below(12) == 0 ? "rollback" : "commit");
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % bound); }
  int Key() { return Below(kKeys); }

  std::string Statement() {
    const std::string table = Below(3) == 0 ? "shared" : own_;
    switch (Below(6)) {
      case 0:
        return fmt::format(
            "insert into {0} select i, {1}, 'many ' || i from generate_series({2}, {2} + {3}) i on "
            "conflict (id) do nothing;",
            table, Below(1000), Key(), Below(30));
      case 1:
        return fmt::format("delete from {} where id = {};", table, Key());
      case 2:
        return fmt::format(
            "update {0} set id = {1} where id = {2} and not exists (select from {0} where id = "
            "{1});",
            table, Key(), Key());
      case 3:
        return fmt::format("update {} set n = n + 1 where id between {} and {};", table, Key(),
                           Key());
      default:
        return fmt::format(
            "insert into {} values ({}, {}, null) on conflict (id) do update set n = excluded.n, "
            "note = 'again';",
            table, Key(), Below(1000));
    }
  }

  std::mt19937_64 random_;
  const std::string own_;
};

}  // namespace

Writers::Writers(const LivePostgres& postgres, int count, uint64_t seed)
    : postgres_(postgres), count_(count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this, i, seed] { Write(i, seed + i); });
}

std::string Writers::CreateTables(int count) {
  std::string sql = "create table shared (id bigint primary key, n int, note text);";
  for (int i = 0; i < count; ++i)
    sql += fmt::format("create table w{} (id bigint primary key, n int, note text);", i);
  return sql;
}

void Writers::AllowTransactions(int count) {
  {
    std::lock_guard lock(mutex_);
    allowed_ += count;
  }
  changed_.notify_all();
}

bool Writers::IsIdle() {
  std::lock_guard lock(mutex_);
  return allowed_ == 0 && busy_ == 0;
}

void Writers::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Writers::TakeTurn() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || allowed_ > 0; });
  if (stopping_) return false;
  --allowed_;
  ++busy_;
  return true;
}

void Writers::EndTurn() {
  std::lock_guard lock(mutex_);
  --busy_;
}

void Writers::Write(int writer, uint64_t seed) {
  RandomSql random(writer, seed);
  std::unique_ptr<PgSession> session;
  while (TakeTurn()) {
    if (session == nullptr) {
      if (auto connected = postgres_.Connect(); connected.ok()) session = *std::move(connected);
    }
    // A deadlock or a duplicate key ends the transaction, a killed server the session: both are
    // part of the workload.
    const std::string sql = random.Transaction();
    if (session != nullptr && session->Exec(sql).ok()) {
      ++committed_;
    } else {
      session.reset();
    }
    EndTurn();
  }
}

}  // namespace tidemark::testing
