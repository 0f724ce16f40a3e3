#include "capture/poll/key_scan.h"

#include <gtest/gtest.h>

namespace tidemark::capture::poll {
namespace {

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

}  // namespace
}  // namespace tidemark::capture::poll
