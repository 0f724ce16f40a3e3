#include "capture/snapshot_status.h"

#include <gtest/gtest.h>

namespace tidemark::capture {
namespace {

const absl::Time kBegan = absl::FromUnixSeconds(100);

TEST(SnapshotStatusTest, TellsHowFarItIsAndHowLongItLasts) {
  v1::SnapshotStatus status;
  BeginSnapshotStatus(kBegan, &status);
  EXPECT_EQ(status.started().seconds(), 100);
  // The first is done with fewer rows than it was estimated at, the second has more already.
  FillSnapshotStatus(
      {{"public.a", 40, 50, true}, {"public.b", 60, 20, false}, {"public.c", 0, 100, false}},
      kBegan, kBegan + absl::Seconds(10), &status);
  ASSERT_EQ(status.tables_size(), 3);
  EXPECT_EQ(status.tables(0).rows_estimated(), 40u);
  EXPECT_EQ(status.tables(1).rows_estimated(), 60u);
  EXPECT_EQ(status.rows_done(), 100u);
  EXPECT_EQ(status.rows_estimated(), 200u);
  EXPECT_EQ(status.rows_per_second(), 10);
  EXPECT_EQ(status.remaining().seconds(), 10);
  EXPECT_FALSE(status.has_finished());
}

TEST(SnapshotStatusTest, IsFinishedOnceEveryTableIs) {
  v1::SnapshotStatus status;
  FillSnapshotStatus({{"public.a", 40, 50, true}}, kBegan, kBegan + absl::Seconds(4), &status);
  EXPECT_EQ(status.finished().seconds(), 104);
  EXPECT_FALSE(status.has_remaining());
}

TEST(SnapshotStatusTest, KnowsNoRateBeforeAnyTimeHasPassed) {
  v1::SnapshotStatus status;
  FillSnapshotStatus({{"public.a", 0, 50, false}}, kBegan, kBegan, &status);
  EXPECT_EQ(status.rows_per_second(), 0);
  EXPECT_FALSE(status.has_remaining());
}

}  // namespace
}  // namespace tidemark::capture
