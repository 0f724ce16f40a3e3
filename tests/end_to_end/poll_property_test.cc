// Whatever writers do within the class of a polled feed, and whenever its server dies: nothing is
// lost, and nothing is told twice.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <iostream>
#include <map>
#include <thread>

#include "tests/end_to_end/poll_fixture.h"
#include "tests/end_to_end/polled_workload.h"
#include "tests/end_to_end/workload_tables.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

// Each is a test with a PostgreSQL of its own, so that several run at a time, and so many that none
// of them has more than 25 of the seeds of tests/run --long: all of those end in time.
constexpr uint64_t kShares = 20;
constexpr uint64_t kSeedsDefault = 20;
constexpr int kSteps = 260;
constexpr int kPauseMaxMs = 10;
constexpr int kPageRowsMax = 50;
// Of every other seed: more than the skew of the clocks on both sides and the longest transaction
// need, on the busiest machine.
constexpr std::chrono::milliseconds kWideOverlap{20'000};
// Of the others: what the slowest clock, a stamp of whole seconds and the longest transaction need,
// and not so much that nothing is lost where a fast clock raises the bound above the source's.
constexpr std::chrono::milliseconds kTightOverlap{6'000};
constexpr std::chrono::milliseconds kNeededBesideOpen =
    PolledWorkload::kSkewMax + std::chrono::milliseconds(1000);
static_assert(kNeededBesideOpen + PolledWorkload::kOpenMax < kTightOverlap);
static_assert(kTightOverlap < 2 * PolledWorkload::kSkewMax + PolledWorkload::kOpenMax);
static_assert(2 * PolledWorkload::kSkewMax + PolledWorkload::kOpenMax < kWideOverlap / 2);
constexpr const char* kCrashSteps[] = {"read", "appended", "published", "synced", "confirmed"};
// Pages that every poll of these tables has: of each its window, and of the four that are stamped
// by time what lies outside of time, at both ends. The first poll reads each by its key.
constexpr int kPagesLeast = 5 + 2 * 4;
constexpr int kFirstPagesLeast = 5;

class PollPropertyTest : public PollFixture, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void Run(uint64_t seed) {
    SCOPED_TRACE(fmt::format("again with TIDEMARK_SEED={} TIDEMARK_SEEDS=1", seed));
    dice_ = Dice(seed);
    page_rows_ = 1 + dice_.Below(kPageRowsMax);
    overlap_ = seed % 2 == 0 ? kWideOverlap : kTightOverlap;
    database_ = fmt::format("seed_{}", seed);
    Begin(seed);
    if (HasFatalFailure()) return;
    Work(seed);
    if (!HasFailure()) Compare();
    std::cout << fmt::format(
        "seed {}: pages of {}, {} writes, {} transactions, {} server deaths, {} between pages\n",
        seed, page_rows_, workload_->committed().size(), feed().stream().finished_transactions(),
        deaths_, deaths_between_pages_);
    if (HasFailure()) std::cout << tidemark_->Diagnostics() << "\n";
    // The last check of the subscriber is with the server.
    feeds_.clear();
    tidemark_.reset();
  }

 private:
  void Begin(uint64_t seed) {
    Exec({"create database " + database_});
    auto session = postgres_->Connect(database_);
    ASSERT_TRUE(session.ok()) << session.status();
    const absl::Status made = (*session)->Exec(
        "alter default privileges grant select on tables to poller;" + PolledWorkload::CreateSql());
    ASSERT_TRUE(made.ok()) << made;
    workload_ = std::make_unique<PolledWorkload>(*postgres_, database_, seed, page_rows_);
    for (int i = 0; i < 20; ++i) workload_->Step();
    workload_->Finish();
    deaths_ = deaths_between_pages_ = 0;
    StandBetween();
    if (HasFatalFailure()) return;
    const std::vector<PollOptions> feeds = {
        {.database = database_,
         .tables = PolledWorkload::Polled(),
         .lines = {fmt::format("overlap: {}ms", overlap_.count()),
                   fmt::format("page_rows: {}", page_rows_),
                   "key_scan: {rows_per_second: 20000}"}}};
    if (seed % 3 == 0) {
      WriteConfig(feeds);
      LaunchToDieBefore(2 + dice_.Below(kFirstPagesLeast - 1));
      if (HasFatalFailure()) return;
      ++deaths_;
      ++deaths_between_pages_;
    }
    StartFeeds(feeds);
  }

  // Another server for the one that is there, or was.
  void Replace(const std::vector<std::string>& arguments = {}) {
    ++deaths_;
    tidemark_->Kill9();
    if (pages_->held()) {
      ++deaths_between_pages_;
      pages_->Release();
    }
    Launch(arguments);
  }
  void ReplaceIfItHasEnded() {
    if (pages_->held() || !tidemark_->process().IsRunning()) Replace();
  }

  // The writers, beside a subscriber that follows whatever happens to its server.
  void Work(uint64_t seed) {
    std::atomic<bool> over = false;
    std::thread reader([&] {
      EXPECT_TRUE(
          feed().subscriber().FollowUntil([&] { return over.load(); }, PolledFeed::kDeadline));
    });
    const int first_polls = deaths_between_pages_;
    const int page = dice_.Below(kSteps / 4);
    const int kill = dice_.Below(kSteps / 2);
    const int crash = kSteps / 2 + dice_.Below(kSteps / 4);
    for (int step = 0; step < kSteps && !HasFailure(); ++step) {
      workload_->Step();
      poll(nullptr, 0, dice_.Below(kPauseMaxMs));
      if (step == page) pages_->HoldBefore(2 + dice_.Below(kPagesLeast - 1));
      if (step == kill) Replace();
      if (step == crash) {
        Replace({"--crash-at", fmt::format("{}:{}", kCrashSteps[seed % 5], 1 + dice_.Below(4))});
      }
      ReplaceIfItHasEnded();
      // Refused by a server that is not there, or not yet: nobody counts on it.
      if (dice_.Below(kSteps / 3) == 0) (void)feed().StartSnapshot("public.loose");
    }
    workload_->Finish();
    if (!HasFailure()) {
      EXPECT_TRUE(WaitUntil(
          [&] {
            ReplaceIfItHasEnded();
            return deaths_between_pages_ > first_polls;
          },
          PolledFeed::kDeadline, [&] { return "no poll was cut: " + tidemark_->Diagnostics(); }));
    }
    // Without an order to die.
    tidemark_->Kill9();
    if (!HasFailure()) Start();
    over = true;
    reader.join();
  }

  void Compare() {
    ASSERT_TRUE(WaitUntilStampsArePast());
    ASSERT_TRUE(feed().Settle()) << tidemark_->Diagnostics();
    // A machine that is busy keeps a transaction open for longer than it should: what that wrote is
    // behind the window, where a scan finds it.
    const bool in_class = workload_->longest_open() + kNeededBesideOpen < overlap_;
    if (!in_class) {
      std::cout << "a transaction was open for " << workload_->longest_open().count() << " ms\n";
    }
    for (const std::string& table : PolledWorkload::Followed()) {
      if (!in_class) {
        ASSERT_TRUE(feed().Scan("public." + table)) << tidemark_->Diagnostics();
      }
      EXPECT_EQ(feed().Rows("public." + table), There(PolledWorkload::Query(table), database_))
          << table;
    }
    const std::string scanned = PolledWorkload::kScanned;
    ASSERT_TRUE(feed().Scan("public." + scanned)) << tidemark_->Diagnostics();
    EXPECT_EQ(feed().Rows("public." + scanned), There(PolledWorkload::Query(scanned), database_));
    EXPECT_EQ(PolledFeed::Complaints(feed().Status()), "");
    CompareTold();
    CompareNewcomer();
    tidemark_->Kill9();
    const absl::Status verified = tidemark_->VerifyStore();
    EXPECT_TRUE(verified.ok()) << verified;
    Start();
  }

  // The fence lets through what the source's clock has passed.
  ::testing::AssertionResult WaitUntilStampsArePast() {
    auto session = postgres_->Connect(database_);
    return WaitUntil(
        [&] {
          return (*session)
                     ->QueryValue(
                         "select clock_timestamp() > (select max(at) from (select at from marked "
                         "union all select at from buried union all select at from loose union all "
                         "select at from coarse) s)")
                     .value_or("") == "t";
        },
        PolledFeed::kDeadline);
  }

  // Every image was written and committed, and is newer than what was told of the row before.
  void CompareTold() {
    const auto transactions = SeenTransactions(feed().stream());
    ASSERT_TRUE(transactions.ok()) << transactions.status();
    std::map<std::string, int64_t> newest;
    for (const RecordedTransaction& transaction : *transactions) {
      for (const RecordedChange& change : transaction.changes) {
        if (change.op == "delete") continue;
        const int64_t number = std::stoll(change.columns.at("v").value());
        int64_t& last = newest[change.table + DescribeColumns(change.key)];
        EXPECT_GT(number, last) << "told again, or after what is newer: " << Describe(change);
        EXPECT_EQ(workload_->committed().count(number), 1u)
            << "nobody committed it: " << Describe(change);
        last = number;
      }
    }
    EXPECT_FALSE(newest.empty());
  }

  // The rows that the server keeps are what it told; and a read up to now is proved by a poll.
  void CompareNewcomer() {
    RecordedStream rows("newcomer");
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_until()->mutable_now();
    LiveSubscriber newcomer(tidemark_->address(), request, &rows);
    newcomer.Connect();
    ASSERT_TRUE(newcomer.ReadToEnd(PolledFeed::kDeadline));
    EXPECT_TRUE(newcomer.end().ok()) << newcomer.end().error_message();
    const auto theirs = Fold(rows), ours = Fold(feed().stream());
    ASSERT_TRUE(theirs.ok() && ours.ok());
    for (const auto& [table, there] : *ours) {
      const auto found = theirs->find(table);
      EXPECT_TRUE(found != theirs->end() ? found->second == there : there.empty()) << table;
    }
  }

  Dice dice_{0};
  int page_rows_ = 1;
  std::chrono::milliseconds overlap_{};
  int deaths_ = 0;
  // Of those, where a poll had read some of its pages.
  int deaths_between_pages_ = 0;
  std::string database_;
  std::unique_ptr<PolledWorkload> workload_;
};

// The parameter is a share of the seeds.
// proves A04, A06, A11, A12, A19, A24, A25, A31, A32, A34, A38, A45, B138, O1, O3
TEST_P(PollPropertyTest, NothingIsLostOrToldTwiceWithinTheClass) {
  const uint64_t seeds = NumberFromEnvironment("TIDEMARK_SEEDS", kSeedsDefault);
  for (uint64_t i = GetParam(); i < seeds && !HasFailure(); i += kShares) {
    Run(SeedFromEnvironment() + i);
  }
  EXPECT_FALSE(HasFailure());
}
INSTANTIATE_TEST_SUITE_P(Shares, PollPropertyTest, ::testing::Range<uint64_t>(0, kShares));

}  // namespace
}  // namespace tidemark::testing
