// A large table is polled: memory is flat, an idle poll reads its window alone, and a comparison of
// all keys keeps to its rate while another table flows, hardly later than before.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/end_to_end/poll_fixture.h"
#include "tests/end_to_end/resident_memory.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

uint64_t RowsOfTable() { return IsLong() ? 5'000'000 : 100'000; }
uint64_t RowsPerSecond() { return IsLong() ? 100'000 : 40'000; }
// Of the first poll, whatever the number of rows; then of everything behind it.
constexpr double kPeakMaxMiB = 400;
constexpr double kGrowthMaxMiB = 128;
constexpr int kWindowRows = 60;
// Of the time from a commit until it is told: that of the other table, while all keys are compared.
constexpr double kLatencyFactorMax = 2;
constexpr int kCommitsBefore = 25;
constexpr std::chrono::minutes kLong{30};

class PollLargeTableTest : public PollFixture {
 protected:
  void SetUp() override {
    PollFixture::SetUp();
    // A row a second, and its window is a minute.
    Exec({"create table big (id bigint primary key, at timestamptz not null, v int, note text)",
          fmt::format("insert into big select i, now() - i * interval '1 s', 0, repeat('n', 50) "
                      "from generate_series(1, {}) i",
                      RowsOfTable()),
          "create index on big (at, id)",
          "create table small (id int primary key, at timestamptz not null)",
          "create index on small (at, id)", "analyze"});
  }
  double Resident(const std::string& field) {
    return ResidentMiB(tidemark_->process().pid(), field);
  }
  uint64_t RowsRead() {
    return std::stoull(
        Value("select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from "
              "pg_stat_user_tables where relname = 'big'"));
  }
  void StartPolling() {
    WriteConfig(
        {{.tables = {"{table: public.big, cursor: at}", "{table: public.small, cursor: at}"},
          .lines = {fmt::format("overlap: {}s", kWindowRows), "page_rows: 1000",
                    fmt::format("key_scan: {{rows_per_second: {}}}", RowsPerSecond())}}});
    Launch();
    auto small = std::make_unique<PolledFeed>(tidemark_->address(), "main",
                                              std::vector<std::string>{"public.small"});
    v1::FeedStatus status;
    ASSERT_TRUE(WaitUntil(
        [&] {
          status = small->Status();
          return status.poll().polls() > 0 && !status.head().position().empty();
        },
        kLong, [&] { return status.DebugString() + tidemark_->Diagnostics(); }));
    feeds_.push_back(std::move(small));
    ASSERT_TRUE(feed().ReadToHead());
  }
  // A row of the other table is committed: how long it takes until it is told.
  double MillisecondsUntilTold() {
    Exec({fmt::format("insert into small values ({}, now())", ++told_)});
    const auto committed = std::chrono::steady_clock::now();
    const auto is_told = [&] {
      return feed().stream().finished_transactions() >= static_cast<uint64_t>(told_);
    };
    EXPECT_TRUE(feed().subscriber().FollowUntil(is_told, PolledFeed::kDeadline))
        << feed().Status().poll().DebugString();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - committed)
        .count();
  }
  // One by one, each told before the next, as long as the scan runs.
  std::vector<double> FlowWhileScanned() {
    std::vector<double> latencies;
    while (!HasFailure()) {
      const v1::KeyScanStatus scan = feed().StatusOf("public.big").scan();
      if (!scan.running() && scan.has_finished()) break;
      latencies.push_back(MillisecondsUntilTold());
    }
    return latencies;
  }
  static double Median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  int told_ = 0;
};

TEST_F(PollLargeTableTest, MemoryIsFlatAndWhatIsReadIsBounded) {
  StartPolling();
  if (HasFatalFailure()) return;
  const double peak = Resident("VmHWM");
  const double before = Resident("VmRSS");
  EXPECT_LE(peak, kPeakMaxMiB);
  EXPECT_EQ(feed().StatusOf("public.big").rows_read() >= RowsOfTable(), true);
  // Sessions report what they did a second late.
  ASSERT_TRUE(feed().WaitForPolls(15));
  const uint64_t polls_before = feed().Status().poll().polls();
  const uint64_t read_before = RowsRead();
  ASSERT_TRUE(feed().WaitForPolls(30));
  const uint64_t polls = feed().Status().poll().polls() - polls_before + 15;
  const uint64_t read = RowsRead() - read_before;
  EXPECT_LE(read, polls * (kWindowRows + 10)) << "in " << polls << " polls";

  std::vector<double> before_scan;
  for (int i = 0; i < kCommitsBefore; ++i) before_scan.push_back(MillisecondsUntilTold());
  Exec({"delete from big where id % (select max(id) / 10 from big) = 5007",
        "update big set v = 1 where id % (select max(id) / 10 from big) = 5009"});
  ASSERT_TRUE(feed().StartSnapshot("public.big").ok());
  ASSERT_TRUE(WaitUntil([&] { return feed().StatusOf("public.big").scan().has_started(); },
                        PolledFeed::kDeadline));
  const std::vector<double> while_scanned = FlowWhileScanned();
  EXPECT_GT(while_scanned.size(), 3u) << "the other table waits for the scan";
  const double latency = Median(before_scan);
  const double latency_scanned = Median(while_scanned);
  EXPECT_LE(latency_scanned, kLatencyFactorMax * latency);
  const v1::KeyScanStatus scan = feed().StatusOf("public.big").scan();
  EXPECT_EQ(scan.extra(), 10u);
  EXPECT_EQ(scan.different(), 10u);
  EXPECT_EQ(scan.missing(), 0u);
  EXPECT_EQ(scan.rows_read(), RowsOfTable() - 10);
  const double seconds = static_cast<double>(scan.finished().seconds() - scan.started().seconds()) +
                         (scan.finished().nanos() - scan.started().nanos()) / 1e9;
  const double least = static_cast<double>(RowsOfTable()) / static_cast<double>(RowsPerSecond());
  // By the clocks of polls: the one in which it ended began up to a second before.
  EXPECT_GE(seconds, (least - 1) * 0.9);
  const double growth = Resident("VmHWM") - before;
  EXPECT_LE(growth, kGrowthMaxMiB);
  std::cout << fmt::format(
      "{} rows: {:.0f} MiB at most in the first poll, {:.0f} MiB more behind it; {:.1f} rows read "
      "in an idle poll; {:.1f} s for a scan that may take no less than {:.1f}, {} commits told "
      "meanwhile, {:.0f} ms after each in the median, {:.0f} ms before it\n",
      RowsOfTable(), peak, growth, static_cast<double>(read) / static_cast<double>(polls - 15),
      seconds, least, while_scanned.size(), latency_scanned, latency);
}

}  // namespace
}  // namespace tidemark::testing
