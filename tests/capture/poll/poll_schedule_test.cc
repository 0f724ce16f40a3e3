#include "capture/poll/poll_schedule.h"

#include <gtest/gtest.h>

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

TEST(RowBudgetTest, GivesSoManyRowsASecondAndKeepsNoMoreThanThat) {
  RowBudget budget(100);
  EXPECT_EQ(budget.Available(kNow), 100u);
  budget.Take(100);
  EXPECT_EQ(budget.Available(kNow), 0u);
  EXPECT_GT(budget.Next(kNow, 1), kNow);
  EXPECT_GE(budget.Available(budget.Next(kNow, 1)), 1u);
  EXPECT_EQ(budget.Available(kNow + absl::Milliseconds(500)), 50u);
  EXPECT_EQ(budget.Available(kNow + absl::Hours(1)), 100u);
}

TEST(RowBudgetTest, PaysBackWhatAChunkTookTooMuch) {
  RowBudget budget(100);
  ASSERT_EQ(budget.Available(kNow), 100u);
  budget.Take(300);
  EXPECT_EQ(budget.Available(kNow + absl::Seconds(1)), 0u);
  EXPECT_EQ(budget.Available(kNow + absl::Seconds(3)), 100u);
}

}  // namespace
}  // namespace tidemark::capture::poll
