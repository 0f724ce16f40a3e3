// Where capture ends: ordered by the configuration or by a call, stored before it counts, finished
// with the last transaction and not before, and kept over every death.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "proto/reason.h"
#include "server/stop_order.h"
#include "tests/server/loop_fixture.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::FeedFixture;
using testing::IdleBatch;
using testing::SnapshotBegins;
using testing::SnapshotEnds;
using testing::TransactionBatch;
using testing::WaitUntil;
using namespace std::chrono_literals;

absl::Time TimeOf(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

capture::CaptureBatch Finished(capture::CaptureBatch batch, uint64_t bound) {
  batch.finished = At(bound);
  return batch;
}

// What an order was answered.
class Answer {
 public:
  StopOrders::Done done() {
    return [this](const absl::StatusOr<v1::StopRecord>& record) {
      std::lock_guard lock(mutex_);
      record_ = record;
      answered_ = true;
    };
  }
  absl::StatusOr<v1::StopRecord> Wait() {
    EXPECT_TRUE(WaitUntil(
        [this] {
          std::lock_guard lock(mutex_);
          return answered_;
        },
        20s));
    std::lock_guard lock(mutex_);
    return record_;
  }

 private:
  std::mutex mutex_;
  bool answered_ = false;
  absl::StatusOr<v1::StopRecord> record_ = absl::UnknownError("not answered");
};

class StopTest : public testing::LoopFixture {
 protected:
  static size_t Opens(FeedFixture& fixture) {
    const auto events = fixture.source().events();
    return static_cast<size_t>(
        std::count_if(events.begin(), events.end(),
                      [](const std::string& event) { return event.rfind("open", 0) == 0; }));
  }
};

// proves S01, S05
TEST_F(StopTest, OrdersAreReadByTheirLooks) {
  EXPECT_EQ(ParseStopOrder("")->kind, StopOrder::Kind::kNever);
  EXPECT_EQ(ParseStopOrder("never")->kind, StopOrder::Kind::kNever);
  EXPECT_EQ(ParseStopOrder("now")->kind, StopOrder::Kind::kNow);
  EXPECT_EQ(ParseStopOrder("0/16B3748")->native, "0/16B3748");
  EXPECT_EQ(ParseStopOrder("1970-01-01T00:01:40Z")->time, TimeOf(100));
  EXPECT_FALSE(ParseStopOrder("12:00").ok());
  v1::Until until;
  EXPECT_EQ(StopOrderText(until), "");
  until.mutable_none();
  EXPECT_EQ(StopOrderText(until), "");
  until.mutable_time()->set_seconds(100);
  EXPECT_EQ(ParseStopOrder(StopOrderText(until))->time, TimeOf(100));
}

// proves S20, S22, S23, S34
TEST_F(StopTest, FinishesWithTheLastTransactionAndStaysFinished) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  Answer answer;
  fixture.feed().stop().Give("25", answer.done());
  const auto record = answer.Wait();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->bound(), At(25).bytes());
  EXPECT_FALSE(record->finished());
  EXPECT_EQ(fixture.feed().store().checkpoint().stop().requested(), "25") << "stored first";
  EXPECT_EQ(fixture.source().stop().bound, At(25));
  EXPECT_EQ(fixture.feed().Status().stop().bound().native_position(), "25");

  fixture.source().Yield(TransactionBatch(15, {1}));
  // The next commit begins at 22 and ends behind 25: it is left out.
  fixture.source().Yield(Finished(IdleBatch(22), 25));
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FINISHED));
  EXPECT_EQ(fixture.source().events().back(), "close") << "the producer has ended, too";
  EXPECT_TRUE(fixture.feed().Status().stop().finished());
  EXPECT_EQ(fixture.feed().tail().proved(), At(25));
  EXPECT_EQ(fixture.feed().tail().head(), At(22));
  EXPECT_EQ(fixture.feed().StateWhenCaughtUp(), v1::FEED_STATE_LIVE);
  End(runner);

  fixture.Reopen();
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FINISHED));
  EXPECT_EQ(Opens(fixture), 0u) << "no stream is opened again";
  EXPECT_THAT(fixture.Log(), ElementsAre("15:1"));

  // Lifted, it goes on where it can read everything.
  Answer lifted;
  fixture.feed().stop().Give("", lifted.done());
  ASSERT_TRUE(lifted.Wait().ok());
  ASSERT_TRUE(WaitForEvent(fixture, "open 22"));
  EXPECT_EQ(fixture.source().stop(), capture::StopPoint());
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_STREAMING));
  EXPECT_FALSE(fixture.feed().Status().has_stop());
  End(runner);
}

// proves S06, S23, S50
TEST_F(StopTest, NowIsLookedUpOnceAfterTheSnapshotAndKept) {
  FeedFixture fixture(true, nullptr, "now");
  fixture.source().SetEnd(std::nullopt);  // not before the snapshot is whole
  fixture.source().Yield(SnapshotBegins());
  fixture.source().Yield(SnapshotEnds(10));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 10"));
  EXPECT_EQ(fixture.feed().store().checkpoint().stop().requested(), "now");
  EXPECT_TRUE(fixture.feed().store().checkpoint().stop().bound().empty());
  fixture.source().SetEnd(capture::LogEnd{At(25), TimeOf(1)});
  ASSERT_TRUE(WaitUntil(
      [&] { return fixture.feed().store().checkpoint().stop().bound() == At(25).bytes(); }, 20s));
  EXPECT_EQ(fixture.source().stop().bound, At(25));
  End(runner);

  fixture.Reopen();
  // More was written meanwhile.
  fixture.source().SetEnd(capture::LogEnd{At(40), TimeOf(1)});
  fixture.source().Yield(Finished(TransactionBatch(20, {1}), 25));
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FINISHED));
  EXPECT_EQ(fixture.feed().Status().stop().bound().native_position(), "25");
  End(runner);

  // Another text in the configuration is another order; the same is none.
  fixture.SetStopAt("30");
  fixture.Reopen();
  runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "open 20"));
  EXPECT_EQ(fixture.source().stop().bound, At(30));
  End(runner);
  fixture.SetStopAt("never");
  fixture.Reopen();
  runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "open 20"));
  EXPECT_EQ(fixture.source().stop(), capture::StopPoint());
  End(runner);
}

// What an end depends on is in the store before anybody has the end.
TEST_F(StopTest, WhatAnEndDependsOnIsStoredBeforeTheEndIsTold) {
  FeedFixture fixture;
  Prepare(fixture);
  const auto stored = [&] { return fixture.feed().store().checkpoint(); };
  v1::Checkpoint depends = stored();
  depends.mutable_changelog()->set_pulling("700:700:");
  fixture.source().SetEnd(capture::LogEnd{At(25), TimeOf(1), depends});
  auto runner = Run(fixture);
  std::string found = "not answered";
  std::mutex mutex;
  const auto found_text = [&] {
    std::lock_guard lock(mutex);
    return found;
  };
  const auto ticket = fixture.feed().bounds().AskForEnd(absl::InfinitePast(), [&] {
    std::lock_guard lock(mutex);
    found = stored().changelog().pulling();
  });
  ASSERT_TRUE(WaitUntil([&] { return found_text() != "not answered"; }, 20s));
  EXPECT_EQ(found_text(), "700:700:");
  EXPECT_EQ(fixture.feed().bounds().EndOf(*ticket), At(25));

  depends.mutable_changelog()->set_pulling("800:800:");
  fixture.source().SetEnd(capture::LogEnd{At(26), TimeOf(1), depends});
  Answer answer;
  fixture.feed().stop().Give("now", answer.done());
  const auto record = answer.Wait();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->bound(), At(26).bytes());
  EXPECT_EQ(stored().changelog().pulling(), "800:800:");
  EXPECT_EQ(stored().stop().bound(), At(26).bytes());
  EXPECT_EQ(stored().position(), At(10).bytes());
  End(runner);
}

TEST_F(StopTest, ATimeIsWaitedForByTheClockOfTheSource) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().SetEnd(capture::LogEnd{At(11), TimeOf(100)});
  auto runner = Run(fixture);
  Answer answer;
  fixture.feed().stop().Give("1970-01-01T00:01:40Z", answer.done());
  const auto record = answer.Wait();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_TRUE(record->bound().empty()) << "its clock has not passed that time";
  EXPECT_EQ(fixture.source().stop().time, TimeOf(100));
  fixture.source().SetEnd(capture::LogEnd{At(33), TimeOf(100) + absl::Microseconds(1)});
  ASSERT_TRUE(WaitUntil([&] { return fixture.source().stop().bound == At(33); }, 20s));
  EXPECT_EQ(fixture.source().stop().time, TimeOf(100)) << "a later commit ends it still";
  End(runner);
}

// A later order takes the place of an earlier one.
TEST_F(StopTest, TheLastOrderCounts) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  Answer first;
  Answer second;
  fixture.feed().stop().Give("25", first.done());
  fixture.feed().stop().Give("35", second.done());
  ASSERT_TRUE(first.Wait().ok());
  ASSERT_TRUE(second.Wait().ok());
  EXPECT_EQ(fixture.source().stop().bound, At(35));
  End(runner);
  fixture.Reopen();
  EXPECT_EQ(fixture.feed().stop().record().bound(), At(35).bytes());
}

// proves S03, S29
TEST_F(StopTest, WhatIsBehindUsIsRefusedAndChangesNothing) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  for (const char* order : {"9", "nonsense", "12:00"}) {
    Answer answer;
    fixture.feed().stop().Give(order, answer.done());
    const auto record = answer.Wait();
    EXPECT_EQ(ReasonOf(record.status()),
              std::string(order) == "9" ? reason::kBoundBeforeStart : reason::kRequestInvalid);
  }
  fixture.source().Yield(TransactionBatch(20, {1}));
  ASSERT_TRUE(WaitForEvent(fixture, "confirm 20"));
  EXPECT_FALSE(fixture.feed().Status().has_stop());
  // Where capture stands already.
  Answer here;
  fixture.feed().stop().Give("20", here.done());
  EXPECT_TRUE(here.Wait().ok());
  End(runner);

  // In the configuration it is an error that needs a person.
  fixture.SetStopAt("15");
  fixture.Reopen();
  runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_EQ(fixture.feed().Status().last_error().reason(), reason::kBoundBeforeStart);
  End(runner);
}

// proves S21
TEST_F(StopTest, NothingButTheBoundIsFinished) {
  FeedFixture fixture;
  Prepare(fixture);
  auto runner = Run(fixture);
  Answer answer;
  fixture.feed().stop().Give("50", answer.done());
  ASSERT_TRUE(answer.Wait().ok());
  // An error that passes.
  fixture.source().Fail(
      ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable, "gone"));
  ASSERT_TRUE(WaitForEvent(fixture, "close"));
  EXPECT_FALSE(fixture.feed().Status().stop().finished());
  // A stop of the server.
  End(runner);
  EXPECT_EQ(fixture.feed().Status().source_state(), v1::SOURCE_STATE_PAUSED);
  EXPECT_FALSE(fixture.feed().store().checkpoint().stop().finished());
  fixture.Reopen();
  EXPECT_EQ(fixture.feed().stop().record().bound(), At(50).bytes());
  // An error that does not pass.
  runner = Run(fixture);
  fixture.source().Fail(
      ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSlotLost, "lost"));
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FAILED));
  EXPECT_FALSE(fixture.feed().Status().stop().finished());
  Answer refused;
  fixture.feed().stop().Give("60", refused.done());
  EXPECT_EQ(ReasonOf(refused.Wait().status()), reason::kSlotLost);
  End(runner);
}

// proves S33
TEST_F(StopTest, ASourceWithoutProofTakesNoBound) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().SetBounded(
      ErrorWithReason(absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported, "a fork"));
  auto runner = Run(fixture);
  Answer answer;
  fixture.feed().stop().Give("50", answer.done());
  EXPECT_EQ(ReasonOf(answer.Wait().status()), reason::kFeatureUnsupported);
  Answer never;
  fixture.feed().stop().Give("", never.done());
  EXPECT_TRUE(never.Wait().ok());
  End(runner);
}

// proves S24
TEST_F(StopTest, ACheckpointThatKnowsNothingOfBoundsIsOneWithoutABound) {
  FeedFixture fixture;
  Prepare(fixture);
  v1::Checkpoint old;
  old.set_position(std::string(At(10).bytes()));
  old.set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
  EXPECT_EQ(fixture.feed().store().checkpoint().SerializeAsString(), old.SerializeAsString())
      << "as servers wrote it before there were bounds";
  EXPECT_FALSE(fixture.feed().stop().finished());
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForEvent(fixture, "open 10"));
  EXPECT_EQ(fixture.source().stop(), capture::StopPoint());
  End(runner);
}

class StopCrash : public StopTest, public ::testing::WithParamInterface<IngestStep> {};

// proves S20, S23, S38
TEST_P(StopCrash, TheEndIsExactWhereverPowerIsLost) {
  testing::ScratchDir links("links");
  testing::CrashFileSystem disk(links.path());
  FeedFixture fixture(true, disk.env(), "25");
  fixture.source().Yield(SnapshotBegins());
  fixture.source().Yield(SnapshotEnds(10));
  fixture.source().Yield(Finished(TransactionBatch(20, {1}), 25));
  {
    IngestLoop loop(fixture.feed(), *log_, [&, batches = 0](IngestStep step) mutable {
      // The third batch is the last.
      if (step != GetParam() || ++batches < 3) return absl::OkStatus();
      disk.LosePower();
      return absl::AbortedError("crash");
    });
    loop.Run();
  }
  EXPECT_NE(fixture.feed().Status().source_state(), v1::SOURCE_STATE_FINISHED);
  fixture.Close();
  disk.PowerOn();
  fixture.Open();
  const bool finished = fixture.feed().stop().finished();
  // Together, or not at all.
  EXPECT_EQ(finished, fixture.feed().store().head() == At(20));
  if (!finished) fixture.source().Yield(Finished(TransactionBatch(20, {1}), 25));
  auto runner = Run(fixture);
  ASSERT_TRUE(WaitForState(fixture, v1::SOURCE_STATE_FINISHED));
  EXPECT_EQ(Opens(fixture), finished ? 0u : 1u);
  EXPECT_EQ(fixture.feed().Status().stop().bound().native_position(), "25");
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1"));
  End(runner);
}

INSTANTIATE_TEST_SUITE_P(Steps, StopCrash,
                         ::testing::Values(IngestStep::kRead, IngestStep::kAppended,
                                           IngestStep::kPublished, IngestStep::kSynced,
                                           IngestStep::kConfirmed));

}  // namespace
}  // namespace tidemark
