#include "capture/poll/key_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/capture/poll/remembered_rows.h"
#include "tests/capture/poll/scripted_engine.h"

namespace tidemark::capture::poll {
namespace {

using ::testing::ElementsAre;

PolledRow RowAt(std::optional<std::string> cursor) {
  PolledRow row;
  row.cursor = std::move(cursor);
  return row;
}

TEST(ScanVerdictTest, WhatALaterPollTellsIsNoDifference) {
  PolledRow row = RowAt("1");
  EXPECT_EQ(VerdictOf(row, ToldAs::kInsert, NullCursors::kFail), ScanVerdict::kMissing);
  EXPECT_EQ(VerdictOf(row, ToldAs::kUpdate, NullCursors::kFail), ScanVerdict::kDifferent);
  row.waits = true;
  EXPECT_EQ(VerdictOf(row, ToldAs::kInsert, NullCursors::kFail), ScanVerdict::kPending);
  EXPECT_EQ(VerdictOf(row, ToldAs::kNothing, NullCursors::kFail), ScanVerdict::kSame);
}

TEST(ScanVerdictTest, ARowWithoutACursorCountsWhereItIsIncluded) {
  const PolledRow row = RowAt(std::nullopt);
  EXPECT_EQ(VerdictOf(row, ToldAs::kInsert, NullCursors::kExclude), ScanVerdict::kLeftOut);
  EXPECT_EQ(VerdictOf(row, ToldAs::kInsert, NullCursors::kInclude), ScanVerdict::kMissing);
}

TEST(ScanVerdictTest, ARowThatIsMarkedAsDeletedAndKnownIsTooMuch) {
  EXPECT_EQ(VerdictOf(RowAt("1"), ToldAs::kDelete, NullCursors::kFail), ScanVerdict::kExtra);
}

TEST(ScanIsDueTest, ByItsPeriodFromTheEndOfTheLast) {
  PollSettings settings;
  v1::KeyScanState scan;
  scan.set_finished_us(1'000'000'000);
  EXPECT_FALSE(ScanIsDue(settings, scan, 9'000'000'000)) << "not configured";
  settings.scans = true;
  EXPECT_FALSE(ScanIsDue(settings, scan, 9'000'000'000)) << "only when it is asked for";
  settings.scan_period = absl::Minutes(1);
  EXPECT_FALSE(ScanIsDue(settings, scan, 1'059'999'999));
  EXPECT_TRUE(ScanIsDue(settings, scan, 1'060'000'000));
  BeginScan(false, 1'060'000'000, &scan);
  EXPECT_FALSE(ScanIsDue(settings, scan, 9'000'000'000)) << "it runs";
}

// The pass of known keys reads at the source as the pass of rows does.
TEST(KeyScanTest, AsksForNoMoreKnownKeysAtOnceThanItMayRead) {
  RememberedRows rows;
  rows.See(ScriptedSchema());
  for (int64_t id = 1; id <= 7; ++id) {
    v1::Change change;
    change.set_op(v1::OP_INSERT);
    change.add_after()->set_integer(id);
    change.add_after()->set_text("10");
    change.add_after()->set_text("x");
    rows.Apply(ScriptedSchema(), change);
  }
  ScriptedEngine engine;
  RowComparison comparison(&rows);
  KeyScan scan(&engine, &comparison);
  v1::PolledTableState state;
  BeginScan(/*ordered=*/true, 1, state.mutable_scan());
  state.mutable_scan()->set_removing(true);
  TransactionBuilder builder;
  builder.Begin();
  ChangeSink sink(&builder, false);
  std::vector<size_t> asked;
  while (state.scan().running() && asked.size() < 10) {
    const auto step = scan.Step(0, {}, ScriptedSchema(), /*rows_max=*/3, 1, &state, &sink);
    ASSERT_TRUE(step.ok()) << step.status();
    asked.push_back(*step);
  }
  EXPECT_THAT(asked, ElementsAre(3, 3, 1, 0));
  for (const PageOrder& order : engine.orders) EXPECT_LE(order.keys.size(), 3u);
  EXPECT_EQ(builder.changes(), 7u);
}

}  // namespace
}  // namespace tidemark::capture::poll
