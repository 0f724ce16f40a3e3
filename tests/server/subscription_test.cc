#include "server/subscription.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/server/scripted_source.h"

namespace tidemark {
namespace {

using testing::At;
using Cause = Subscription::Cause;
using State = Subscription::State;
using Step = Subscription::Step;

constexpr State kStates[] = {State::kOpening, State::kBootstrap, State::kCatchingUp,
                             State::kLive,    State::kClosing,   State::kClosed};
constexpr Cause kCauses[] = {Cause::kRowsFirst,   Cause::kLogFirst, Cause::kRowsComplete,
                             Cause::kHeadReached, Cause::kRingLeft, Cause::kEndDecided,
                             Cause::kClosingSent, Cause::kPeerGone};

absl::Time Second(int64_t seconds) { return absl::FromUnixSeconds(1'000 + seconds); }

Subscription::Plan LogPlan(uint64_t start) {
  return {.start = At(start), .progress_period = absl::Seconds(5)};
}

TEST(SubscriptionTest, ChangesStateOnlyAsTheTableSays) {
  const std::map<std::pair<State, Cause>, State> table = {
      {{State::kOpening, Cause::kRowsFirst}, State::kBootstrap},
      {{State::kOpening, Cause::kLogFirst}, State::kCatchingUp},
      {{State::kOpening, Cause::kEndDecided}, State::kClosing},
      {{State::kOpening, Cause::kPeerGone}, State::kClosed},
      {{State::kBootstrap, Cause::kRowsComplete}, State::kCatchingUp},
      {{State::kBootstrap, Cause::kEndDecided}, State::kClosing},
      {{State::kBootstrap, Cause::kPeerGone}, State::kClosed},
      {{State::kCatchingUp, Cause::kHeadReached}, State::kLive},
      {{State::kCatchingUp, Cause::kEndDecided}, State::kClosing},
      {{State::kCatchingUp, Cause::kPeerGone}, State::kClosed},
      {{State::kLive, Cause::kRingLeft}, State::kCatchingUp},
      {{State::kLive, Cause::kEndDecided}, State::kClosing},
      {{State::kLive, Cause::kPeerGone}, State::kClosed},
      {{State::kClosing, Cause::kClosingSent}, State::kClosed},
      {{State::kClosing, Cause::kPeerGone}, State::kClosed},
  };
  for (const State from : kStates) {
    for (const Cause cause : kCauses) {
      const auto wanted = table.find({from, cause});
      const auto got = Subscription::After(from, cause);
      const std::string which = std::string(Name(from)) + ", " + std::string(Name(cause));
      ASSERT_EQ(got.has_value(), wanted != table.end()) << which;
      if (!got) continue;
      EXPECT_EQ(Name(*got), Name(wanted->second)) << which;
    }
  }
}

TEST(SubscriptionTest, OpensFirstAndReadsTheLogUpToTheHead) {
  Subscription subscription(LogPlan(10));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kSendOpened);
  subscription.OpenedSent(Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLog);
  subscription.LogRead(At(20), std::nullopt, true, Second(1));
  EXPECT_EQ(subscription.Next(Second(1)), Step::kReadLog);
  EXPECT_EQ(*subscription.boundary(), At(20));
  subscription.LogRead(At(30), At(33), true, Second(2));
  EXPECT_EQ(subscription.state(), State::kLive);
  // The head may stand behind the last transaction: an idle source's progress.
  EXPECT_EQ(*subscription.boundary(), At(33));
  EXPECT_EQ(subscription.Next(Second(2)), Step::kTakeTail);
}

TEST(SubscriptionTest, TellsOnceThatTheClientHasEverything) {
  Subscription subscription(LogPlan(10));
  subscription.OpenedSent(Second(0));
  subscription.LogRead(At(10), At(10), false, Second(0));
  subscription.TailTaken(At(10), true, false, Second(0));
  EXPECT_TRUE(subscription.caught_up());
  EXPECT_EQ(subscription.Next(Second(0)), Step::kSendProgress);
  subscription.ProgressSent(Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kTakeTail);
  subscription.TailTaken(At(11), false, true, Second(1));
  EXPECT_FALSE(subscription.caught_up());
  subscription.TailTaken(At(11), true, false, Second(1));
  EXPECT_EQ(subscription.Next(Second(1)), Step::kTakeTail);
}

// proves B157
TEST(SubscriptionTest, SendsProgressAfterAPeriodWithoutARecordHoweverMuchIsRead) {
  Subscription subscription(LogPlan(0));
  subscription.OpenedSent(Second(0));
  for (int second = 1; second < 5; ++second) {
    subscription.LogRead(At(second), std::nullopt, false, Second(second));
    EXPECT_EQ(subscription.Next(Second(second)), Step::kReadLog);
  }
  EXPECT_EQ(subscription.Next(Second(5)), Step::kSendProgress);
  EXPECT_EQ(*subscription.boundary(), At(4));
  subscription.ProgressSent(Second(5));
  EXPECT_EQ(subscription.Next(Second(5)), Step::kReadLog);
  EXPECT_EQ(subscription.progress_due(), Second(10));
}

TEST(SubscriptionTest, BootstrapHasNoBoundaryUntilItIsWhole) {
  Subscription subscription(
      {.start = At(50), .rows = true, .log_below_rows = true, .progress_period = absl::Seconds(5)});
  subscription.OpenedSent(Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadRows);
  EXPECT_FALSE(subscription.boundary().has_value());
  subscription.RowsRead(true, true, Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLogBelowRows);
  subscription.LogBelowRowsRead(false, true, Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLogBelowRows);
  subscription.LogBelowRowsRead(true, false, Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kSendRowsEnd);
  EXPECT_FALSE(subscription.boundary().has_value());
  subscription.RowsEndSent(Second(0));
  EXPECT_EQ(*subscription.boundary(), At(50));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLog);
}

TEST(SubscriptionTest, LeavesTheRingForTheStoreAndComesBack) {
  Subscription subscription(LogPlan(10));
  subscription.OpenedSent(Second(0));
  subscription.LogRead(At(10), At(10), false, Second(0));
  subscription.TailInStore(At(20));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLog);
  EXPECT_EQ(subscription.state(), State::kLive);
  subscription.LogRead(At(20), std::nullopt, true, Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kTakeTail);
  subscription.FellBehind();
  EXPECT_EQ(subscription.state(), State::kCatchingUp);
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLog);
}

// proves S14, S19, S20, S21
TEST(SubscriptionTest, FinishesWhenTheBoundIsProvedAndEverythingUpToItWasTaken) {
  Subscription subscription(LogPlan(10));
  subscription.SetProof(At(30));
  subscription.OpenedSent(Second(0));
  // Read, and not proved.
  subscription.LogRead(At(20), At(25), true, Second(0));
  subscription.EverythingTaken(At(25));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kTakeTail);
  // However long nothing comes.
  EXPECT_EQ(subscription.Next(Second(1'000)), Step::kSendProgress);
  subscription.ProgressSent(Second(1'000));
  // Proved, and the last of it not taken yet.
  subscription.TailTaken(At(30), false, true, Second(1'000));
  EXPECT_EQ(subscription.Next(Second(1'000)), Step::kTakeTail);
  subscription.TailTaken(At(30), true, false, Second(1'000));
  subscription.EverythingTaken(At(31));
  EXPECT_EQ(subscription.Next(Second(1'000)), Step::kFinish);
  EXPECT_EQ(*subscription.boundary(), At(30));
  subscription.Close();
  EXPECT_EQ(subscription.Next(Second(1'000)), Step::kSendClosing);
}

TEST(SubscriptionTest, WhatWasTakenBeforeTheBoundWasKnownIsNoProof) {
  Subscription subscription(LogPlan(10));
  subscription.OpenedSent(Second(0));
  subscription.LogRead(At(20), At(20), true, Second(0));
  subscription.EverythingTaken(At(40));
  subscription.SetProof(At(30));
  EXPECT_NE(subscription.Next(Second(0)), Step::kFinish);
  subscription.EverythingTaken(At(40));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kFinish);
}

TEST(SubscriptionTest, ALaterGenerationProvesNothingOfAnEarlierOne) {
  Subscription subscription(LogPlan(10));
  subscription.SetProof(At(30));
  subscription.OpenedSent(Second(0));
  subscription.LogRead(At(20), At(20), true, Second(0));
  subscription.EverythingTaken(Position::Of(2, uint64_t{1}));
  EXPECT_NE(subscription.Next(Second(0)), Step::kFinish);
}

TEST(SubscriptionTest, NoBoundEndsABootstrap) {
  Subscription subscription({.start = At(50),
                             .rows = true,
                             .log_below_rows = false,
                             .progress_period = absl::Seconds(5)});
  subscription.SetProof(At(50));
  subscription.OpenedSent(Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadRows);
  subscription.RowsRead(true, true, Second(0));
  subscription.RowsEndSent(Second(0));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kReadLog);
  subscription.LogRead(At(50), At(50), false, Second(0));
  subscription.EverythingTaken(At(50));
  EXPECT_EQ(subscription.Next(Second(0)), Step::kFinish);
}

TEST(SubscriptionTest, ClosesOnceWithTheLastBoundary) {
  Subscription subscription(LogPlan(10));
  subscription.OpenedSent(Second(0));
  subscription.LogRead(At(20), std::nullopt, true, Second(0));
  subscription.Close();
  EXPECT_EQ(subscription.Next(Second(100)), Step::kSendClosing);
  EXPECT_EQ(*subscription.boundary(), At(20));
  subscription.ClosingSent();
  EXPECT_TRUE(subscription.closed());
  EXPECT_EQ(subscription.Next(Second(100)), Step::kEnd);
}

}  // namespace
}  // namespace tidemark
