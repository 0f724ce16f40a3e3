// What becomes of a feed whose source's log does not go on behind what is stored: by configuration,
// by order, and over every death.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "proto/reason.h"
#include "tests/server/loop_fixture.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::FeedFixture;
using ::testing::HasSubstr;
using testing::TransactionBatch;
using testing::WaitUntil;
using namespace std::chrono_literals;

constexpr v1::RecoveryPolicy kResnapshot = v1::RECOVERY_POLICY_RESNAPSHOT;
constexpr v1::RecoveryPolicy kGap = v1::RECOVERY_POLICY_GAP_AND_CONTINUE;

Position In2(uint64_t number) { return Position::Of(2, number); }

absl::Status Error(std::string_view reason) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, "as the test wants it");
}

// What a source hands over that went on behind `number`.
capture::CaptureBatch Healed(uint64_t number, v1::RecoveryPolicy policy) {
  capture::CaptureBatch batch;
  batch.checkpoint = testing::CheckpointAt(number);
  batch.checkpoint->set_position(std::string(In2(number).bytes()));
  v1::GapRecord& gap = batch.gap.emplace();
  gap.set_to(batch.checkpoint->position());
  gap.set_reason("SLOT_LOST");
  gap.set_detail("as the test wants it");
  gap.set_policy(policy);
  batch.made = true;
  return batch;
}

capture::CaptureBatch Behind(uint64_t number, const std::vector<int64_t>& ids) {
  capture::CaptureBatch batch = TransactionBatch(number, ids);
  std::get<capture::TransactionRead>(batch.events[1]).transaction.position = In2(number);
  batch.checkpoint->set_position(std::string(In2(number).bytes()));
  return batch;
}

class BreakTest : public testing::LoopFixture {
 protected:
  static absl::Status Recover(FeedFixture& fixture, v1::RecoveryPolicy policy) {
    std::mutex mutex;
    std::optional<absl::Status> answer;
    fixture.feed().recovery().Give({policy, [&](const absl::Status& status) {
                                      std::lock_guard lock(mutex);
                                      answer = status;
                                    }});
    EXPECT_TRUE(WaitUntil(
        [&] {
          std::lock_guard lock(mutex);
          return answer.has_value();
        },
        20s));
    std::lock_guard lock(mutex);
    return answer.value_or(absl::UnknownError("not answered"));
  }
};

// proves R33, R37, B055: nothing is made again before a person says so, and then once.
TEST_F(BreakTest, ByDefaultTheFeedStopsUntilItIsOrderedToRecover) {
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.source().FailOpen(Error(reason::kSlotLost));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  const v1::FeedStatus failed = fixture.feed().Status();
  EXPECT_EQ(failed.last_error().reason(), "SLOT_LOST");
  EXPECT_THAT(failed.last_error().message(), HasSubstr("tidemark recover shop --policy"));
  EXPECT_EQ(failed.recovery(), v1::RECOVERY_POLICY_STOP);
  EXPECT_FALSE(fixture.feed().store().checkpoint().has_broken());
  fixture.source().Yield(Healed(30, kResnapshot));
  fixture.source().Yield(Behind(40, {7}));
  ASSERT_TRUE(Recover(fixture, kResnapshot).ok());
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 40"));
  EXPECT_EQ(fixture.source().CountOf("open 10 heals SLOT_LOST"), 1u);
  const v1::FeedStatus healed = fixture.feed().Status();
  EXPECT_EQ(healed.source_state(), v1::SOURCE_STATE_STREAMING);
  EXPECT_FALSE(healed.has_last_error());
  EXPECT_EQ(healed.generation(), 2u);
  EXPECT_EQ(healed.gaps(), 1u);
  EXPECT_EQ(healed.last_gap().reason(), "SLOT_LOST");
  EXPECT_EQ(healed.last_gap().policy(), kResnapshot);
  EXPECT_EQ(healed.last_gap().from().position(), At(10).Text());
  EXPECT_EQ(healed.last_gap().to().position(), In2(30).Text());
  EXPECT_FALSE(fixture.feed().store().checkpoint().has_broken());
  // Once: the next break is another decision.
  EXPECT_EQ(ReasonOf(Recover(fixture, kResnapshot)), reason::kRecoveryRefused);
  fixture.source().Fail(Error(reason::kSlotMissing));
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  End(runner);
}

TEST_F(BreakTest, TheConfigurationHealsByItself) {  // proves B055
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.SetRecovery("resnapshot");
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSlotLost));
  fixture.source().Yield(Healed(30, kResnapshot));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 30"));
  EXPECT_EQ(fixture.feed().store().generation(), 2u);
  EXPECT_EQ(fixture.source().CountOf("open 10 heals SLOT_LOST"), 1u);
  EXPECT_TRUE(fixture.feed().store().LostTables().empty());
  End(runner);
}

TEST_F(BreakTest, AnotherClusterIsHealedByOrderOnly) {  // proves S48
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.SetRecovery("resnapshot");
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSourceReplaced));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  fixture.source().Yield(Healed(30, kResnapshot));
  ASSERT_TRUE(Recover(fixture, kResnapshot).ok());
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 30"));
  EXPECT_EQ(fixture.source().CountOf("open 10 heals SOURCE_REPLACED"), 1u);
  End(runner);
}

TEST_F(BreakTest, WhereNothingIsReadAgainTheRowsAreGivenUp) {
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.SetRecovery("gap_and_continue");
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSlotLost));
  fixture.source().Yield(Healed(30, kGap));
  fixture.source().Yield(Behind(40, {7}));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 40"));
  const v1::FeedStatus status = fixture.feed().Status();
  ASSERT_EQ(status.table_problems_size(), 1);
  EXPECT_EQ(status.table_problems(0).table(), "public.orders");
  EXPECT_EQ(status.table_problems(0).reason(), "CHANGES_MISSING");
  EXPECT_THAT(status.table_problems(0).message(), HasSubstr("tidemark table read"));
  EXPECT_EQ(status.table_problems(0).since().position(), In2(30).Text());
  EXPECT_FALSE(fixture.feed().store().KeepsRows(testing::SampleTable()));
  EXPECT_THAT(fixture.Log(), ElementsAre("40:1"));
  End(runner);
}

// proves S48: what the source looks like later does not undo it.
TEST_F(BreakTest, ASourceThatWasSetBackIsNotForgotten) {
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.source().FailOpen(Error(reason::kSourceRewound));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  End(runner);
  fixture.Reopen();
  const v1::BreakRecord noted = fixture.feed().store().checkpoint().broken();
  EXPECT_EQ(noted.reason(), "SOURCE_REWOUND");
  EXPECT_EQ(noted.policy(), v1::RECOVERY_POLICY_STOP);
  // As a source answers such a checkpoint.
  fixture.source().FailOpen(Error(reason::kSourceRewound));
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_EQ(fixture.feed().store().checkpoint().broken().time_us(), noted.time_us());
  fixture.source().Yield(Healed(5, kGap));
  ASSERT_TRUE(Recover(fixture, kGap).ok());
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 5"));
  EXPECT_EQ(fixture.source().CountOf("open 10 heals SOURCE_REWOUND"), 1u);
  End(runner);
}

TEST_F(BreakTest, OrdersAreRefusedWhereThereIsNoBreak) {
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_STREAMING));
  EXPECT_EQ(ReasonOf(Recover(fixture, kResnapshot)), reason::kRecoveryRefused);
  End(runner);
  fixture.Reopen();
  for (int i = 0; i < 100; ++i) fixture.source().FailOpen(Error(reason::kSourceUnreachable));
  runner = Run(fixture);
  ASSERT_TRUE(WaitUntil([&] { return fixture.feed().Status().last_error().attempts() > 0; }, 20s));
  EXPECT_EQ(ReasonOf(Recover(fixture, kResnapshot)), reason::kRecoveryRefused);
  End(runner);
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSourcePrivilege));
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_EQ(ReasonOf(Recover(fixture, kResnapshot)), reason::kSourcePrivilege)
      << "what stops it is something else";
  End(runner);
}

TEST_F(BreakTest, BeforeTheFirstSnapshotIsWholeNothingIsBroken) {
  FeedFixture fixture;
  fixture.SetRecovery("resnapshot");
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSlotLost));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_FALSE(fixture.feed().store().checkpoint().has_broken());
  End(runner);
}

TEST_F(BreakTest, AnEndThatWasSetIsLookedUpBehindTheGap) {  // proves S38
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  fixture.SetRecovery("resnapshot");
  fixture.SetStopAt("35");
  fixture.Reopen();
  fixture.source().FailOpen(Error(reason::kSlotLost));
  fixture.source().Yield(Healed(30, kResnapshot));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 30"));
  ASSERT_TRUE(WaitUntil([&] { return fixture.source().stop().bound == In2(35); }, 20s,
                        [&] { return fixture.feed().stop().record().DebugString(); }));
  EXPECT_EQ(fixture.feed().store().checkpoint().stop().requested(), "35");
  End(runner);
}

// proves S38, R24: at every step of a healing, a loss of power comes out in one generation or the
// other, with the order kept.
class BreakCrash : public BreakTest, public ::testing::WithParamInterface<IngestStep> {};

TEST_P(BreakCrash, AHealingIsDoneOrStillToBeDone) {
  testing::ScratchDir links("links");
  testing::CrashFileSystem disk(links.path());
  FeedFixture fixture(/*replays_exactly=*/true, disk.env());
  Prepare(fixture, {1, 2});
  fixture.source().FailOpen(Error(reason::kSlotLost));
  fixture.source().Yield(Healed(30, kResnapshot));
  std::atomic<bool> crashed = false;
  auto runner = Run(fixture, [&](IngestStep step) {
    if (step != GetParam()) return absl::OkStatus();
    disk.LosePower();
    crashed = true;
    return absl::AbortedError("crash");
  });
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  ASSERT_TRUE(Recover(fixture, kResnapshot).ok());
  // The order is answered before the loop goes on: to stop it at once would be no crash.
  ASSERT_TRUE(WaitUntil([&] { return crashed.load(); }, 30s,
                        [&] { return fixture.feed().Status().DebugString(); }));
  ASSERT_TRUE(runner->StopBefore(absl::Now() + absl::Seconds(30)));
  runner.reset();
  fixture.Close();
  disk.PowerOn();
  fixture.Open();
  const bool done = fixture.feed().store().generation() == 2;
  EXPECT_EQ(done, GetParam() != IngestStep::kRead) << "it is fsynced with the append";
  EXPECT_EQ(fixture.feed().store().head(), done ? In2(30) : At(10));
  EXPECT_EQ(fixture.feed().store().checkpoint().has_broken(), !done);
  EXPECT_EQ(fixture.feed().store().Gaps().size(), done ? 1u : 0u);
  if (!done) fixture.source().Yield(Healed(30, kResnapshot));
  fixture.source().Yield(Behind(40, {7}));
  runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 40"));
  EXPECT_EQ(fixture.source().CountOf("open 10 heals SLOT_LOST"), done ? 0u : 1u);
  EXPECT_THAT(fixture.Log(), ElementsAre("40:1"));
  EXPECT_EQ(fixture.feed().store().Gaps().size(), 1u);
  End(runner);
}

INSTANTIATE_TEST_SUITE_P(Steps, BreakCrash,
                         ::testing::Values(IngestStep::kRead, IngestStep::kAppended,
                                           IngestStep::kPublished, IngestStep::kSynced,
                                           IngestStep::kConfirmed),
                         [](const auto& info) {
                           return "Step" + std::to_string(static_cast<int>(info.param));
                         });

}  // namespace
}  // namespace tidemark
