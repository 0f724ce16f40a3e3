// A subscriber that stops reading costs bounded memory and slows nobody: neither capture, nor
// another subscriber, nor the slot.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "tests/end_to_end/change_counter.h"
#include "tests/end_to_end/resident_memory.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/seed.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

// Larger than any socket buffer between server and subscriber holds.
constexpr int kRowBytes = 2000;
constexpr int kRowsPerCommit = 500;
constexpr double kGrowthMaxMiB = 128;

// proves B155
TEST(StalledSubscriberTest, SlowsNobodyAndCatchesUp) {
  const seconds stall(IsLong() ? 60 : 10);
  auto postgres = LivePostgres::Create();
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  ASSERT_TRUE((*postgres)->Exec("create table item (id bigserial primary key, payload text)").ok());
  LiveTidemark tidemark(**postgres);
  const absl::Status started = tidemark.Start();
  ASSERT_TRUE(started.ok()) << started;
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_latest();
  ChangeCounter stalled(tidemark.address(), request);
  ChangeCounter reader(tidemark.address(), request);
  ASSERT_TRUE(stalled.ReadUntil([&] { return stalled.opened(); }));
  ASSERT_TRUE(reader.ReadUntil([&] { return reader.opened(); }));

  const auto session = (*postgres)->Connect();
  ASSERT_TRUE(session.ok()) << session.status();
  const double before = ResidentMiB(tidemark.process().pid(), "VmRSS");
  const auto end = std::chrono::steady_clock::now() + stall;
  uint64_t commits = 0;
  auto slowest = std::chrono::milliseconds(0);
  while (std::chrono::steady_clock::now() < end) {
    const auto committed = std::chrono::steady_clock::now();
    ASSERT_TRUE(
        (*session)
            ->Exec(fmt::format(
                "insert into item (payload) select repeat('z', {}) from generate_series(1, {})",
                kRowBytes, kRowsPerCommit))
            .ok());
    ++commits;
    ASSERT_TRUE(reader.ReadUntil([&] { return reader.finished() >= commits; }))
        << tidemark.Diagnostics();
    slowest = std::max(slowest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - committed));
  }
  const double growth = ResidentMiB(tidemark.process().pid(), "VmHWM") - before;
  std::cout << fmt::format(
      "{} commits of {} rows; the reader's slowest took {} ms; {:.0f} MiB more\n", commits,
      kRowsPerCommit, slowest.count(), growth);
  EXPECT_GT(commits * kRowsPerCommit * kRowBytes, uint64_t{40} << 20)
      << "too little was written to stall anybody";
  EXPECT_LT(slowest, seconds(10));
  EXPECT_LE(growth, kGrowthMaxMiB);

  // The slot went on without the one that stalled.
  const auto flush = (*postgres)->QueryValue("select pg_current_wal_flush_lsn()");
  ASSERT_TRUE(flush.ok()) << flush.status();
  EXPECT_TRUE(WaitUntil(
      [&] {
        return (*postgres)
                   ->QueryValue(
                       fmt::format("select confirmed_flush_lsn >= '{}' from pg_replication_slots "
                                   "where slot_name = 'tidemark_main'",
                                   *flush))
                   .value_or("") == "t";
      },
      seconds(30), [&] { return tidemark.Diagnostics(); }));
  ASSERT_TRUE(stalled.ReadUntil([&] { return stalled.finished() >= commits; }))
      << tidemark.Diagnostics();
  EXPECT_EQ(stalled.changes(), commits * kRowsPerCommit);
  EXPECT_FALSE(stalled.broke_a_rule());
}

}  // namespace
}  // namespace tidemark::testing
