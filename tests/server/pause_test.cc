// A feed that is paused and resumed by order, over restarts; and one that needed a person, tried
// again without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "proto/reason.h"
#include "tests/server/loop_fixture.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;
using testing::FeedFixture;
using ::testing::HasSubstr;
using testing::TransactionBatch;
using testing::WaitUntil;

class PauseTest : public testing::LoopFixture {
 protected:
  static absl::Status Order(FeedFixture& fixture, FeedOrder::Kind kind) {
    std::mutex mutex;
    std::optional<absl::Status> answer;
    fixture.feed().orders().Give(
        {.kind = kind, .done = [&](const absl::StatusOr<v1::DropFeedResponse>& done) {
           std::lock_guard lock(mutex);
           answer = done.status();
         }});
    EXPECT_TRUE(WaitUntil(
        [&] {
          std::lock_guard lock(mutex);
          return answer.has_value();
        },
        kDeadline));
    std::lock_guard lock(mutex);
    return answer.value_or(absl::UnknownError("not answered"));
  }
  static absl::Status Pause(FeedFixture& fixture) {
    return Order(fixture, FeedOrder::Kind::kPause);
  }
  static absl::Status Resume(FeedFixture& fixture) {
    return Order(fixture, FeedOrder::Kind::kResume);
  }
  static size_t Opens(FeedFixture& fixture) {
    const auto events = fixture.source().events();
    return static_cast<size_t>(
        std::count_if(events.begin(), events.end(),
                      [](const std::string& event) { return event.rfind("open", 0) == 0; }));
  }
  static absl::Status Privilege() {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourcePrivilege,
                           "may not");
  }
};

TEST_F(PauseTest, RestsOverRestartsUntilItIsResumed) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "open 10"));
  ASSERT_TRUE(Pause(fixture).ok());
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_PAUSED));
  EXPECT_EQ(fixture.source().events().back(), "close");
  EXPECT_THAT(fixture.feed().Status().detail(), HasSubstr("tidemark feed resume shop"));
  EXPECT_EQ(fixture.feed().StateWhenCaughtUp(), v1::FEED_STATE_SOURCE_DOWN);
  EXPECT_TRUE(Pause(fixture).ok()) << "twice is once";
  End(runner);
  EXPECT_EQ(fixture.feed().Status().source_state(), v1::SOURCE_STATE_PAUSED);

  fixture.Reopen();
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_PAUSED));
  EXPECT_EQ(Opens(fixture), 0u);
  fixture.source().Yield(TransactionBatch(20, {1}));
  ASSERT_TRUE(Resume(fixture).ok());
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 20"));
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1"));
  End(runner);

  fixture.Reopen();
  runner = Run(fixture);
  EXPECT_TRUE(WaitForEvent(fixture, "open 20")) << "resumed for good";
  End(runner);
}

TEST_F(PauseTest, OrdersForWhereToStopAreTakenMeanwhile) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  ASSERT_TRUE(Pause(fixture).ok());
  std::mutex mutex;
  std::optional<absl::StatusOr<v1::StopRecord>> answer;
  fixture.feed().stop().Give("25", [&](const absl::StatusOr<v1::StopRecord>& record) {
    std::lock_guard lock(mutex);
    answer = record;
  });
  ASSERT_TRUE(WaitUntil(
      [&] {
        std::lock_guard lock(mutex);
        return answer.has_value();
      },
      kDeadline));
  EXPECT_TRUE(answer->ok()) << answer->status();
  EXPECT_EQ(fixture.feed().Status().source_state(), v1::SOURCE_STATE_PAUSED);
  End(runner);
}

TEST_F(PauseTest, ToResumeWhatRunsDisturbsNothing) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "open 10"));
  ASSERT_TRUE(Resume(fixture).ok());
  fixture.source().Yield(TransactionBatch(20, {1}));
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 20"));
  EXPECT_EQ(Opens(fixture), 1u);
  End(runner);
}

TEST_F(PauseTest, WhatNeededAPersonIsTriedAgain) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().FailOpen(Privilege());
  fixture.source().FailOpen(Privilege());
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_THAT(fixture.feed().Status().detail(), HasSubstr("tidemark feed resume"));
  ASSERT_TRUE(Resume(fixture).ok());
  ASSERT_TRUE(WaitUntil([&] { return Opens(fixture) == 2; }, kDeadline));
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED)) << "it is not mended yet";
  ASSERT_TRUE(Resume(fixture).ok());
  fixture.source().Yield(TransactionBatch(20, {1}));
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 20"));
  EXPECT_EQ(Opens(fixture), 3u);
  EXPECT_FALSE(fixture.feed().Status().has_last_error());
  End(runner);
}

TEST_F(PauseTest, WhatNeedsAPersonCanBePaused) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().FailOpen(Privilege());
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  ASSERT_TRUE(Pause(fixture).ok());
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_PAUSED));
  ASSERT_TRUE(Resume(fixture).ok());
  EXPECT_TRUE(WaitUntil([&] { return Opens(fixture) == 2; }, kDeadline));
  End(runner);
}

TEST_F(PauseTest, AWaitForTheNextAttemptIsCutShort) {
  FeedFixture fixture;
  Prepare(fixture);
  for (int i = 0; i < 2; ++i) {
    fixture.source().FailOpen(
        ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable, "away"));
  }
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_CONNECTING));
  ASSERT_TRUE(Pause(fixture).ok());
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_PAUSED));
  End(runner);
}

}  // namespace
}  // namespace tidemark
