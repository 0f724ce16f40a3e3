// The initial snapshot under writers, and killed in the middle: nothing half visible, and in the
// end every row once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/end_to_end/source_rows.h"
#include "tests/end_to_end/writers.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

constexpr int kWriters = 3;
constexpr int kRows = 100'000;
// As PostgreSQL logs it, once for each.
constexpr char kMakesSlot[] = "received replication command: CREATE_REPLICATION_SLOT";

bool HasReadRows(const LiveTidemark& tidemark) {
  return tidemark.StatusText().find("\"rows_done\":") != std::string::npos;
}

// proves H1, A46, S30, R38, B161
TEST(KillInSnapshotTest, BeginsAgainAndLosesOrDoublesNoRow) {
  auto postgres = LivePostgres::Create();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)->Exec(Writers::CreateTables(kWriters)).ok());
  // Rows that are wide enough for the snapshot to last.
  ASSERT_TRUE(
      (*postgres)
          ->Exec(fmt::format(
              "insert into w0 select i, i, repeat('r', 200) from generate_series(1000, {}) i",
              1000 + kRows))
          .ok());
  LiveTidemark tidemark(**postgres);
  Writers writers(**postgres, kWriters, 7);
  writers.AllowTransactions(1000);

  ASSERT_TRUE(tidemark.Launch().ok());
  ASSERT_TRUE(WaitUntil([&] { return HasReadRows(tidemark); }, seconds(60),
                        [&] { return tidemark.Diagnostics(); }));
  tidemark.Kill9();
  const absl::Status started = tidemark.Start();
  ASSERT_TRUE(started.ok()) << started << tidemark.Diagnostics();
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  writers.Stop();
  // It was cut in the middle, so that the slot is another one.
  const std::string log = (*postgres)->Log();
  const size_t first = log.find(kMakesSlot);
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(log.find(kMakesSlot, first + 1), std::string::npos) << "it was over before the kill";

  // The bootstrap, and the log from the snapshot on, both lead to what the tables hold.
  RecordedStream bootstrap("bootstrap");
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_snapshot();
  LiveSubscriber subscriber(tidemark.address(), request, &bootstrap);
  ASSERT_TRUE(subscriber.FollowUntil([&] { return subscriber.is_live(); }, seconds(60)))
      << tidemark.Diagnostics();
  const auto rows = RowsOf(bootstrap.segments().back());
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::set<std::pair<std::string, std::string>> keys;
  for (const RecordedChange& row : *rows) {
    EXPECT_TRUE(keys.emplace(row.table, row.key.at("id").value()).second)
        << "doubled: " << Describe(row);
  }
  const auto folded = Fold(bootstrap);
  ASSERT_TRUE(folded.ok()) << folded.status();
  const auto session = (*postgres)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  for (const std::string table : {"shared", "w0", "w1", "w2"}) {
    const auto source = SourceRows(**session, table);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE(RowsById(*folded, table) == *source) << table << ": the rows differ from the table";
  }
}

// proves S47, E8, R36: an idle source is confirmed, what was confirmed is in the checkpoint, and
// what is written while no server runs is captured by the next one.
TEST(IdleKillTest, WhatWasConfirmedWhileIdleIsKnownAfterAKill) {
  auto postgres = LivePostgres::Create();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)
                  ->Exec("create table item (id bigint primary key); create schema elsewhere; "
                         "create table elsewhere.t (n int)")
                  .ok());
  LiveTidemark tidemark(**postgres);
  ASSERT_TRUE(tidemark.Start().ok());
  ASSERT_TRUE((*postgres)->Exec("insert into elsewhere.t select generate_series(1, 1000)").ok());
  const auto flush = (*postgres)->QueryValue("select pg_current_wal_flush_lsn()");
  ASSERT_TRUE(flush.ok()) << flush.status();
  const auto confirmed = fmt::format(
      "select confirmed_flush_lsn >= '{}' from pg_replication_slots where slot_name = "
      "'tidemark_main'",
      *flush);
  ASSERT_TRUE(WaitUntil([&] { return (*postgres)->QueryValue(confirmed).value_or("") == "t"; },
                        seconds(60), [&] { return tidemark.Diagnostics(); }));
  tidemark.Kill9();
  ASSERT_TRUE((*postgres)->Exec("insert into item values (7)").ok());
  const absl::Status started = tidemark.Start();
  EXPECT_TRUE(started.ok()) << started << tidemark.Diagnostics();
  const auto tail = tidemark.Run(
      {"tail", "main", "--from", "earliest", "--format", "jsonl", "--max-transactions", "1"});
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_NE(tail->out.find("\"id\":7"), std::string::npos) << tail->out << tail->err;
}

// proves R32, R31: what was captured, or is of no interest, holds neither WAL nor dead rows of the
// catalogue at the source.
TEST(DrainTest, LetsGoOfTheSourcesLog) {
  auto postgres = LivePostgres::Create();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)
                  ->Exec("create table item (id bigint primary key, payload text); create schema "
                         "elsewhere; create table elsewhere.t (payload text)")
                  .ok());
  LiveTidemark tidemark(**postgres);
  ASSERT_TRUE(tidemark.Start().ok());
  const std::string slot = " from pg_replication_slots where slot_name = 'tidemark_main'";
  const std::string xmin =
      (*postgres)->QueryValue("select catalog_xmin::text" + slot).value_or("none");
  for (const char* table : {"item select i,", "elsewhere.t select"}) {
    ASSERT_TRUE((*postgres)
                    ->Exec(fmt::format("insert into {} repeat(md5(i::text), 100) from "
                                       "generate_series(1, 10000) i",
                                       table))
                    .ok());
  }
  ASSERT_TRUE((*postgres)->Exec("alter table elsewhere.t add column more int").ok());
  const std::string released =
      "select pg_current_wal_flush_lsn() - restart_lsn < 1000000 and catalog_xmin::text::bigint "
      "> " +
      xmin + slot;
  // A checkpoint writes the record from which the source can tell that it needs nothing older.
  EXPECT_TRUE(WaitUntil(
      [&] {
        return (*postgres)->Exec("checkpoint").ok() &&
               (*postgres)->QueryValue(released).value_or("") == "t";
      },
      seconds(60), [&] { return tidemark.Diagnostics(); }));
}

}  // namespace
}  // namespace tidemark::testing
