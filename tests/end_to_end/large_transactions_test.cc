// Transactions far larger than memory would like pass whole, in parts, under one memory bound;
// nothing of them is shown before their end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

#include "tests/end_to_end/change_counter.h"
#include "tests/end_to_end/resident_memory.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

constexpr double kGrowthMaxMiB = 128;
constexpr size_t kMessageBytesMax = 3'670'016;

class LargeTransactionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    ASSERT_TRUE(postgres_
                    ->Exec("create table big (id bigint primary key, payload text);"
                           "alter table big alter payload set storage external;"
                           "create table other (id bigint primary key)")
                    .ok());
  }

  void Start(LiveTidemarkOptions options = {}) {
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_, std::move(options));
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  static std::string ManyRows(uint64_t rows) {
    return fmt::format("insert into big select i, repeat('x', 80) from generate_series(1, {}) i",
                       rows);
  }
  // One transaction of `rows` rows passes, with a subscriber attached and a commit on another table
  // behind it.
  void Pass(const std::string& insert, uint64_t rows) {
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_latest();
    ChangeCounter counter(tidemark_->address(), request);
    ASSERT_TRUE(counter.ReadUntil([&] { return counter.opened(); }));
    const double before = ResidentMiB(tidemark_->process().pid(), "VmRSS");
    ASSERT_TRUE(postgres_->Exec(insert).ok());
    ASSERT_TRUE(postgres_->Exec("insert into other values (1)").ok());
    ASSERT_TRUE(counter.ReadUntil([&] { return counter.finished() >= 2; }))
        << tidemark_->Diagnostics();
    EXPECT_EQ(counter.totals(), (std::vector<uint64_t>{rows, 1}));
    EXPECT_EQ(counter.changes(), rows + 1);
    EXPECT_FALSE(counter.broke_a_rule());
    EXPECT_LE(counter.largest_message_bytes(), kMessageBytesMax);
    const double growth = ResidentMiB(tidemark_->process().pid(), "VmHWM") - before;
    std::cout << fmt::format("{} rows: resident memory {:.0f} MiB, at most {:.0f} MiB more\n", rows,
                             before, growth);
    EXPECT_LE(growth, kGrowthMaxMiB);
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

// proves B049, S12, R30, O4
TEST_F(LargeTransactionsTest, ManyRowsPassUnderTheMemoryBound) {
  const uint64_t rows = IsLong() ? 5'000'000 : 400'000;
  Start();
  Pass(ManyRows(rows), rows);
}

// proves S61, S12, R30: also where they come while they are in progress, and are held until then.
TEST_F(LargeTransactionsTest, RowsInProgressPassUnderTheMemoryBound) {
  const uint64_t rows = IsLong() ? 5'000'000 : 400'000;
  ASSERT_TRUE(postgres_->Exec("alter role postgres set logical_decoding_work_mem = '1MB'").ok());
  LiveTidemarkOptions options;
  options.postgres_lines = {"stream_in_progress: true"};
  Start(options);
  Pass(ManyRows(rows), rows);
  const absl::Status came = tidemark_->WaitForStatus("\"in_progress\"");
  EXPECT_TRUE(came.ok()) << came;
}

// proves B049, S12
TEST_F(LargeTransactionsTest, LargeRowsPassUnderTheMemoryBound) {
  const uint64_t rows = IsLong() ? 1'000 : 150;
  Start();
  Pass(
      fmt::format(
          "insert into big select i, repeat('y', 1024 * 1024) from generate_series(1, {}) i", rows),
      rows);
}

}  // namespace
}  // namespace tidemark::testing
