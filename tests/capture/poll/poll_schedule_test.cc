#include "capture/poll/poll_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tidemark::capture::poll {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(PollScheduleTest, BeginsAtOnceAndThenAfterTheInterval) {
  PollSchedule schedule(absl::Seconds(5), absl::Seconds(1));
  schedule.Reset(7);
  EXPECT_LE(schedule.Due(), kNow);
  schedule.Began();
  schedule.Ended(kNow, false);
  EXPECT_EQ(schedule.ended(), 8u);
  EXPECT_EQ(schedule.Due(), kNow + absl::Seconds(5));
}

TEST(PollScheduleTest, HoldsThePollThatProvesASampleBackUntilNothingOfItWaits) {
  PollSchedule schedule(absl::Milliseconds(100), absl::Seconds(1));
  schedule.Reset(7);
  EXPECT_EQ(schedule.Sample(kNow), 8u);
  EXPECT_EQ(schedule.Due(), kNow + absl::Seconds(1));
  // Whoever samples again must not hold it back for ever.
  EXPECT_EQ(schedule.Sample(kNow + absl::Milliseconds(500)), 9u);
  EXPECT_EQ(schedule.Sample(kNow + absl::Milliseconds(600)), 9u);
  EXPECT_EQ(schedule.Due(), kNow + absl::Seconds(1));
  schedule.Began();
  EXPECT_EQ(schedule.Sample(kNow + absl::Milliseconds(1100)), 10u);
}

TEST(PollScheduleTest, HoldsItBackOverALostConnectionToo) {
  PollSchedule schedule(absl::Milliseconds(100), absl::Seconds(1));
  schedule.Reset(7);
  EXPECT_EQ(schedule.Sample(kNow), 8u);
  schedule.Reset(7);
  EXPECT_EQ(schedule.Due(), kNow + absl::Seconds(1));
  // Some that ended were not stored: the one that was sampled is still to come.
  schedule.Reset(6);
  EXPECT_LE(schedule.Due(), kNow);
  schedule.Began();
  schedule.Ended(kNow, false);
  EXPECT_EQ(schedule.Due(), kNow + absl::Seconds(1));
}

TEST(PollScheduleTest, OnePollThatHasBegunProvesNothing) {
  PollSchedule schedule(absl::Seconds(5), absl::ZeroDuration());
  schedule.Reset(7);
  schedule.Began();
  EXPECT_EQ(schedule.Sample(kNow), 9u);
}

TEST(PollScheduleTest, HurriesForWhoeverWaits) {
  PollSchedule schedule(absl::Hours(1), absl::ZeroDuration());
  schedule.Reset(0);
  schedule.Began();
  schedule.Ended(kNow, false);
  schedule.Want(2);
  EXPECT_TRUE(schedule.IsWanted());
  EXPECT_EQ(schedule.Due(), kNow + kDemandGap);
  schedule.Began();
  schedule.Ended(kNow, false);
  EXPECT_FALSE(schedule.IsWanted());
  EXPECT_EQ(schedule.Due(), kNow + absl::Hours(1));
}

TEST(PollScheduleTest, PollsMoreOftenWhileAllKeysAreCompared) {
  PollSchedule schedule(absl::Hours(1), absl::ZeroDuration());
  schedule.Reset(0);
  schedule.Began();
  schedule.Ended(kNow, true);
  EXPECT_EQ(schedule.Due(), kNow + kScanSliceMax);
}

TEST(PollScheduleTest, DoesNotCountWhatWasGivenUp) {
  PollSchedule schedule(absl::Seconds(5), absl::ZeroDuration());
  schedule.Reset(3);
  schedule.Began();
  schedule.GaveUp(kNow);
  EXPECT_EQ(schedule.ended(), 3u);
  schedule.Began();
  schedule.Ended(kNow, false);
  EXPECT_EQ(schedule.ended(), 4u);
}

// One that begins, or goes on after an hour, reads no second's rows beside those of the second.
TEST(RowBudgetTest, GivesSoManyRowsASecondAndHardlyMoreAtOnce) {
  RowBudget budget(100);
  EXPECT_EQ(budget.Available(kNow), 20u);
  budget.Take(20);
  EXPECT_EQ(budget.Available(kNow), 0u);
  EXPECT_GT(budget.Next(kNow, 1), kNow);
  EXPECT_GE(budget.Available(budget.Next(kNow, 1)), 1u);
  EXPECT_EQ(budget.Available(kNow + absl::Milliseconds(150)), 15u);
  EXPECT_EQ(budget.Available(kNow + absl::Hours(1)), 20u);
}

TEST(RowBudgetTest, ReadsNoMoreInAnySecondThanItsRateAndWhatAddedUp) {
  RowBudget budget(1000);
  std::vector<absl::Time> read;
  absl::Time now = kNow;
  // Chunks of a tenth of a second, as fast as they are let, with a pause of a minute.
  for (int chunk = 0; chunk < 40; ++chunk) {
    if (chunk == 20) now += absl::Minutes(1);
    now = std::max(now, budget.Next(now, 100));
    ASSERT_GE(budget.Available(now), 100u);
    budget.Take(100);
    read.push_back(now);
  }
  for (const absl::Time from : read) {
    const auto within = std::count_if(read.begin(), read.end(), [&](absl::Time at) {
      return at >= from && at < from + absl::Seconds(1);
    });
    EXPECT_LE(within, 12) << from;
  }
}

TEST(RowBudgetTest, PaysBackWhatAChunkTookTooMuch) {
  RowBudget budget(100);
  ASSERT_EQ(budget.Available(kNow), 20u);
  budget.Take(220);
  EXPECT_EQ(budget.Available(kNow + absl::Seconds(1)), 0u);
  EXPECT_EQ(budget.Available(kNow + absl::Seconds(3)), 20u);
}

// However slow it is.
TEST(RowBudgetTest, ARowIsReadAtLast) {
  RowBudget budget(1);
  ASSERT_EQ(budget.Available(kNow), 1u);
  budget.Take(1);
  EXPECT_EQ(budget.Available(budget.Next(kNow, 1)), 1u);
}

}  // namespace
}  // namespace tidemark::capture::poll
