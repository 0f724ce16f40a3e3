// The arithmetic of the cursor, without a database.
#include "capture/changelog/pull_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "capture/changelog/trimmer.h"
#include "proto/reason.h"
#include "tests/testing/seed.h"

namespace tidemark::capture::changelog {
namespace {

using postgres::XidSnapshot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kBeyondDouble = 9007199254740992;

// What `scope` tells, by its definition and not by SQL, of transactions that `now` sees.
std::vector<ListedTransaction> Told(const PullScope& scope,
                                    const std::vector<ListedTransaction>& seen) {
  std::vector<ListedTransaction> told;
  for (const ListedTransaction& one : seen) {
    const bool listed = std::count(scope.xids.begin(), scope.xids.end(), one.xid) != 0;
    const bool in_range =
        one.xid >= scope.from_xid && (!scope.below_xid || one.xid < *scope.below_xid);
    if (!listed && !in_range) continue;
    if (!scope.visible_in.empty()) {
      const XidSnapshot past = *XidSnapshot::Parse(scope.visible_in);
      const bool running =
          std::binary_search(past.in_progress().begin(), past.in_progress().end(), one.xid);
      if (one.xid >= past.xmax() || running) continue;
    }
    if (scope.behind &&
        std::pair(one.last_seq, one.xid) <= std::pair(scope.behind->last_seq, scope.behind->xid)) {
      continue;
    }
    told.push_back(one);
  }
  std::sort(told.begin(), told.end(), [&](const auto& a, const auto& b) {
    return scope.by_xid ? a.xid < b.xid
                        : std::pair(a.last_seq, a.xid) < std::pair(b.last_seq, b.xid);
  });
  return told;
}

Settings By(Strategy strategy) {
  Settings settings;
  settings.schema = "tidemark";
  settings.table = "changelog";
  settings.strategy = strategy;
  return settings;
}

// proves P09, P10, X8, B149: 64 bits, exactly, and "9" before "10".
TEST(PullScopeTest, ComparesIdsAsWholeNumbers) {
  v1::ChangelogCheckpoint told;
  told.set_snapshot("9007199254740992:9007199254740993:9007199254740992");
  const auto scope =
      ScopeOf(told, Strategy::kSnapshot, *XidSnapshot::Parse("9007199254740994:9007199254740994:"));
  ASSERT_TRUE(scope.ok());
  EXPECT_THAT(scope->xids, ElementsAre(kBeyondDouble));
  EXPECT_EQ(scope->from_xid, kBeyondDouble + 1);
  const std::vector<ListedTransaction> seen = {{9, 30, 1}, {10, 20, 1}};
  PullScope all;
  EXPECT_EQ(Told(all, seen).front().xid, 10u);
  all.by_xid = true;
  EXPECT_EQ(Told(all, seen).front().xid, 9u);
}

// proves P03, P04, P20: strictly below the watermark, which is of the same snapshot as the rows.
TEST(PullScopeTest, TheWatermarkIsNotPassed) {
  v1::ChangelogCheckpoint told;
  auto scope = ScopeOf(told, Strategy::kXidWatermark, *XidSnapshot::Parse("7:12:7,9"));
  ASSERT_TRUE(scope.ok());
  EXPECT_EQ(scope->from_xid, 0u);
  EXPECT_EQ(scope->below_xid, 7u);
  EXPECT_TRUE(scope->by_xid);
  TellTransaction({.xid = 5, .last_seq = 40, .rows = 2}, &told);
  scope = ScopeOf(told, Strategy::kXidWatermark, *XidSnapshot::Parse("12:12:"));
  EXPECT_EQ(scope->from_xid, 6u);
  EXPECT_EQ(scope->below_xid, 12u);
}

// proves B143: the one that wrote last is told last, although its id is lower.
TEST(PullScopeTest, TransactionsComeByTheirHighestNumber) {
  const auto scope = ScopeOf({}, Strategy::kSnapshot, *XidSnapshot::Parse("878:878:"));
  ASSERT_TRUE(scope.ok());
  const auto told = Told(*scope, {{876, 5, 2}, {877, 4, 1}});
  EXPECT_EQ(told[0].xid, 877u);
  EXPECT_EQ(told[1].xid, 876u);
}

// What was running is told when it has ended; what was told is not told again.
TEST(PullScopeTest, APullTellsWhatTheOneBeforeDidNotSee) {
  v1::ChangelogCheckpoint told;
  BeginPull({.snapshot = "10:13:10", .highest_seq = 9, .clock_us = 1}, By(Strategy::kSnapshot),
            &told);
  TellTransaction({.xid = 12, .last_seq = 9, .rows = 1}, &told);
  ASSERT_TRUE(EndPull(Strategy::kSnapshot, &told).ok());
  EXPECT_EQ(told.snapshot(), "10:13:10");
  EXPECT_TRUE(told.pulling().empty());
  EXPECT_EQ(told.transactions(), 1u);
  const auto scope = ScopeOf(told, Strategy::kSnapshot, *XidSnapshot::Parse("15:15:"));
  ASSERT_TRUE(scope.ok());
  const auto next = Told(*scope, {{9, 1, 1}, {10, 8, 1}, {11, 2, 1}, {12, 9, 1}, {14, 11, 1}});
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0].xid, 10u);
  EXPECT_EQ(next[1].xid, 14u);
}

// A pull that was not finished is: the same transactions, whatever was committed since.
TEST(PullScopeTest, APullIsGoneOnWithByItsOwnSnapshot) {
  v1::ChangelogCheckpoint told;
  told.set_snapshot("5:5:");
  BeginPull({.snapshot = "10:20:10", .highest_seq = 40, .clock_us = 1}, By(Strategy::kSnapshot),
            &told);
  TellTransaction({.xid = 12, .last_seq = 30, .rows = 1}, &told);
  // As after a restart: another snapshot, more transactions.
  BeginPull({.snapshot = "30:30:", .highest_seq = 90, .clock_us = 2}, By(Strategy::kSnapshot),
            &told);
  EXPECT_EQ(told.pulling(), "10:20:10");
  const auto scope = ScopeOf(told, Strategy::kSnapshot, *XidSnapshot::Parse("30:30:"));
  ASSERT_TRUE(scope.ok());
  const auto rest = Told(
      *scope,
      {{4, 1, 1}, {10, 80, 1}, {12, 30, 1}, {13, 20, 1}, {14, 30, 1}, {15, 40, 1}, {25, 90, 1}});
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[0].xid, 14u) << "of equal numbers, by xid";
  EXPECT_EQ(rest[1].xid, 15u);
}

// A server that crashes may give out again the ids of which it wrote nothing to its log.
TEST(PullScopeTest, AnIdOfWhichNothingWasToldIsNotTakenForTold) {
  v1::ChangelogCheckpoint told;
  BeginPull({.snapshot = "20:20:", .highest_seq = 9, .clock_us = 1}, By(Strategy::kSnapshot),
            &told);
  TellTransaction({.xid = 12, .last_seq = 9, .rows = 1}, &told);
  ASSERT_TRUE(EndPull(Strategy::kSnapshot, &told).ok());
  EXPECT_EQ(told.snapshot(), "13:13:");
  const auto scope = ScopeOf(told, Strategy::kSnapshot, *XidSnapshot::Parse("25:25:"));
  EXPECT_EQ(Told(*scope, {{12, 9, 1}, {17, 10, 1}}).size(), 1u);
}

TEST(PullScopeTest, APullThatFindsNothingMovesNothing) {
  v1::ChangelogCheckpoint told;
  BeginPull({.snapshot = "20:20:"}, By(Strategy::kSnapshot), &told);
  ASSERT_TRUE(EndPull(Strategy::kSnapshot, &told).ok());
  EXPECT_EQ(told.snapshot(), "");
  EXPECT_EQ(told.transactions(), 0u);
}

// proves P12: a text of a snapshot that is none is refused.
TEST(PullScopeTest, ADamagedCheckpointIsRefused) {
  v1::ChangelogCheckpoint told;
  told.set_snapshot("12:13");
  told.set_pulling("x");
  EXPECT_EQ(ReasonOf(ScopeOf(told, Strategy::kSnapshot, {}).status()), reason::kSourceProtocol);
  EXPECT_EQ(ReasonOf(EndPull(Strategy::kSnapshot, &told)), reason::kSourceProtocol);
}

TEST(PullScopeTest, TheStrategyChangesOneWayOnly) {
  v1::ChangelogCheckpoint told;
  told.set_strategy("xid_watermark");
  told.set_watermark_xid(41);
  told.set_snapshot("99:99:");
  ASSERT_TRUE(ChangeStrategy(Strategy::kXidWatermark, &told).ok());
  EXPECT_EQ(told.snapshot(), "99:99:");
  ASSERT_TRUE(ChangeStrategy(Strategy::kSnapshot, &told).ok());
  EXPECT_EQ(told.snapshot(), "42:42:") << "what lay above the watermark was not told";
  const absl::Status back = ChangeStrategy(Strategy::kXidWatermark, &told);
  EXPECT_EQ(ReasonOf(back), reason::kChangelogUnusable);
  EXPECT_THAT(std::string(back.message()), HasSubstr("Go on with strategy snapshot"));
}

TEST(PullScopeTest, PagesHoldWholeTransactionsUnlessOneAloneIsLarger) {
  const std::vector<ListedTransaction> listed = {{1, 1, 3}, {2, 2, 4}, {3, 3, 1}, {4, 4, 100}};
  EXPECT_EQ(WholeInPage(listed, 0, 7), 2u);
  EXPECT_EQ(WholeInPage(listed, 2, 7), 1u);
  EXPECT_EQ(WholeInPage(listed, 3, 7), 0u);
  EXPECT_EQ(WholeInPage(listed, 0, 2), 0u);
  EXPECT_EQ(WholeInPage(listed, 4, 7), 0u);
}

// proves P32: what is told and durable, and nothing else, may be deleted.
TEST(TrimScopeTest, OnlyWhatIsToldAndDurableGoes) {
  v1::ChangelogCheckpoint durable;
  durable.set_snapshot("10:13:10");
  durable.set_pulling("20:20:");
  durable.set_told_xid(15);
  durable.set_watermark_xid(12);
  auto scope = TrimScope({}, durable, Strategy::kSnapshot);
  ASSERT_TRUE(scope.ok());
  const std::vector<ListedTransaction> seen = {{9, 1, 1}, {10, 2, 1}, {12, 3, 1}, {15, 4, 1}};
  auto gone = Told(*scope, seen);
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_EQ(gone[0].xid, 9u);
  EXPECT_EQ(gone[1].xid, 12u);
  // What was gone before is not looked for again.
  v1::ChangelogCheckpoint later;
  later.set_snapshot("16:16:");
  gone = Told(*TrimScope(durable, later, Strategy::kSnapshot), seen);
  ASSERT_EQ(gone.size(), 2u);
  EXPECT_EQ(gone[0].xid, 10u);
  EXPECT_EQ(gone[1].xid, 15u);
  EXPECT_THAT(Told(*TrimScope({}, {}, Strategy::kSnapshot), seen), IsEmpty());
  EXPECT_EQ(Told(*TrimScope({}, durable, Strategy::kXidWatermark), seen).size(), 3u);
}

// proves P15: random transactions and snapshots, kills between any two steps: every transaction is
// told once, a commit that depends on another one behind it.
TEST(PullScopeTest, NothingIsLostOrRepeatedUnderRandomInterleavings) {
  std::mt19937_64 random(testing::SeedFromEnvironment());
  for (int round = 0; round < 200; ++round) {
    std::vector<ListedTransaction> all;  // ended, or to end
    std::set<uint64_t> running;
    std::vector<uint64_t> told_order;
    v1::ChangelogCheckpoint durable;
    v1::ChangelogCheckpoint told;
    uint64_t next_xid = kBeyondDouble;
    uint64_t next_seq = 1;
    const Settings settings = By(Strategy::kSnapshot);
    const auto pull = [&](bool to_end) {
      const XidSnapshot now =
          *XidSnapshot::Parse(fmt::format("{}:{}:{}", running.empty() ? next_xid : *running.begin(),
                                          next_xid, fmt::join(running, ",")));
      const PullScope scope = *ScopeOf(told, Strategy::kSnapshot, now);
      std::vector<ListedTransaction> seen;
      for (const auto& one : all) {
        if (!running.contains(one.xid)) seen.push_back(one);
      }
      BeginPull({.snapshot = now.Text()}, settings, &told);
      for (const auto& one : Told(scope, seen)) {
        TellTransaction(one, &told);
        told_order.push_back(one.xid);
        durable = told;
        if (!to_end && random() % 3 == 0) return;  // killed behind it
      }
      ASSERT_TRUE(EndPull(Strategy::kSnapshot, &told).ok());
      durable = told;
    };
    for (int step = 0; step < 60; ++step) {
      switch (random() % 4) {
        case 0:
          running.insert(next_xid);
          all.push_back({next_xid++, next_seq++, 1});
          break;
        case 1:
          // A running one writes again.
          for (auto& one : all) {
            if (running.contains(one.xid) && random() % 2 == 0) one.last_seq = next_seq++;
          }
          break;
        case 2:
          if (!running.empty())
            running.erase(std::next(running.begin(), random() % running.size()));
          break;
        default:
          pull(random() % 2 == 0);
          told = durable;
      }
    }
    running.clear();
    pull(true);
    pull(true);
    std::set<uint64_t> once(told_order.begin(), told_order.end());
    EXPECT_EQ(once.size(), told_order.size()) << "round " << round;
    EXPECT_EQ(once.size(), all.size()) << "round " << round;
    EXPECT_EQ(told.transactions(), all.size());
  }
}

}  // namespace
}  // namespace tidemark::capture::changelog
