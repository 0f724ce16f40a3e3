#include "server/ingest_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "proto/reason.h"
#include "server/feed_runner.h"
#include "server/limits.h"
#include "tests/server/feed_fixture.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::FeedFixture;
using testing::IdleBatch;
using ::testing::IsEmpty;
using testing::SampleRun;
using testing::SampleTable;
using testing::SnapshotBegins;
using testing::SnapshotEnds;
using testing::TransactionBatch;
using testing::WaitUntil;
using namespace std::chrono_literals;

constexpr IngestStep kAllSteps[] = {IngestStep::kRead, IngestStep::kAppended,
                                    IngestStep::kPublished, IngestStep::kSynced,
                                    IngestStep::kConfirmed};

std::string Name(IngestStep step) {
  switch (step) {
    case IngestStep::kRead:
      return "read";
    case IngestStep::kAppended:
      return "appended";
    case IngestStep::kPublished:
      return "published";
    case IngestStep::kSynced:
      return "synced";
    case IngestStep::kConfirmed:
      return "confirmed";
    case IngestStep::kDropNoted:
      return "drop noted";
    case IngestStep::kSourceDropped:
      return "source dropped";
  }
  return "";
}

absl::Status Error(std::string_view reason) {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason, "as the test wants it");
}

// Notes every step with what had become of position `at` by then.
class StepRecorder {
 public:
  StepRecorder(FeedFixture& fixture, Position at) : fixture_(fixture), at_(at) {}

  IngestObserver observer() {
    return [this](IngestStep step) {
      const auto& feed = fixture_.feed();
      std::string line = Name(step);
      if (feed.store().head() >= at_) line += " stored";
      if (feed.tail().head() >= at_) line += " published";
      if (feed.store().synced() >= at_) line += " synced";
      if (fixture_.source().CountOf("confirm " + std::to_string(at_.engine_low())) > 0) {
        line += " confirmed";
      }
      std::lock_guard lock(mutex_);
      lines_.push_back(line);
      return absl::OkStatus();
    };
  }
  std::vector<std::string> lines() const {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  FeedFixture& fixture_;
  const Position at_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class IngestLoopTest : public ::testing::Test {
 protected:
  // Runs the loop until the source was told that `number` is durable.
  void RunUntilConfirmed(FeedFixture& fixture, uint64_t number, IngestObserver observer = nullptr) {
    FeedRunner runner(fixture.feed(), *log_, std::move(observer));
    EXPECT_TRUE(WaitUntilConfirmed(fixture, number));
    EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(30)));
  }

  ::testing::AssertionResult WaitUntilConfirmed(FeedFixture& fixture, uint64_t number) {
    const std::string event = "confirm " + std::to_string(number);
    return WaitUntil([&] { return fixture.source().CountOf(event) > 0; }, 20s,
                     [&] {
                       return fixture.feed().Status().DebugString() +
                              ::testing::PrintToString(fixture.source().events());
                     });
  }

  void Prepare(FeedFixture& fixture, uint64_t number = 10) {
    fixture.source().Yield(SnapshotBegins());
    fixture.source().Yield(SnapshotEnds(number));
    RunUntilConfirmed(fixture, number);
  }

  const std::unique_ptr<EventLog> log_ = EventLog::Silent();
};

TEST_F(IngestLoopTest, WhereTheSourceReplaysPublishingRunsAheadOfTheFsync) {
  FeedFixture fixture(/*replays_exactly=*/true);
  Prepare(fixture);
  StepRecorder steps(fixture, At(20));
  fixture.source().Yield(TransactionBatch(20, {1, 2}));
  RunUntilConfirmed(fixture, 20, steps.observer());
  EXPECT_THAT(steps.lines(), ElementsAre("read", "appended stored", "published stored published",
                                         "synced stored published synced",
                                         "confirmed stored published synced confirmed"));
}

TEST_F(IngestLoopTest, ElsewhereTheFsyncComesFirst) {
  FeedFixture fixture(/*replays_exactly=*/false);
  Prepare(fixture);
  StepRecorder steps(fixture, At(20));
  fixture.source().Yield(TransactionBatch(20, {1, 2}));
  RunUntilConfirmed(fixture, 20, steps.observer());
  EXPECT_THAT(steps.lines(), ElementsAre("read", "appended stored", "synced stored synced",
                                         "published stored published synced",
                                         "confirmed stored published synced confirmed"));
}

// What Tidemark makes cannot be read again at the source.
TEST_F(IngestLoopTest, WhatIsMadeIsFsyncedBeforeItIsShown) {
  FeedFixture fixture(/*replays_exactly=*/true);
  Prepare(fixture);
  StepRecorder steps(fixture, At(10).WithOrdinal(1));
  capture::CaptureBatch batch = TransactionBatch(10, {1, 2});
  std::get<capture::TransactionRead>(batch.events[1]).transaction.position = At(10).WithOrdinal(1);
  batch.checkpoint->set_position(std::string(At(10).WithOrdinal(1).bytes()));
  batch.made = true;
  fixture.source().Yield(std::move(batch));
  fixture.source().Yield(TransactionBatch(20, {3}));
  RunUntilConfirmed(fixture, 20, steps.observer());
  const std::vector<std::string> lines = steps.lines();
  ASSERT_GE(lines.size(), 5u);
  EXPECT_THAT(
      std::vector<std::string>(lines.begin(), lines.begin() + 4),
      ElementsAre("read confirmed", "appended stored confirmed", "synced stored synced confirmed",
                  "published stored published synced confirmed"))
      << "position 10 itself was confirmed before";
  EXPECT_EQ(fixture.feed().store().head(), At(20));
}

TEST_F(IngestLoopTest, ASnapshotIsConfirmedOnlyAfterItsPreparationIsDurable) {
  FeedFixture fixture;
  fixture.source().Yield(SnapshotBegins());
  fixture.source().Yield(SnapshotEnds(10, {1, 2, 3}));
  fixture.source().Yield(TransactionBatch(20, {4}));
  RunUntilConfirmed(fixture, 20);
  EXPECT_THAT(fixture.source().events(),
              ElementsAre("open 0", "confirm 0", "confirm 10", "confirm 20", "close"));
  EXPECT_TRUE(fixture.feed().store().snapshot_whole());
  EXPECT_EQ(fixture.feed().store().floor(), At(10));
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1"));
}

TEST_F(IngestLoopTest, AnIdlePositionIsWrittenToTheCheckpointBeforeItIsConfirmed) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().Yield(IdleBatch(30));
  RunUntilConfirmed(fixture, 30);
  fixture.Reopen();
  fixture.source().Yield(IdleBatch(40));
  RunUntilConfirmed(fixture, 40);
  EXPECT_THAT(fixture.source().events(), ElementsAre("open 30", "confirm 40", "close"));
  EXPECT_THAT(fixture.Log(), IsEmpty());
}

// proves R61, S25, S51
class CrashPoint : public IngestLoopTest, public ::testing::WithParamInterface<IngestStep> {};

TEST_P(CrashPoint, NothingIsLostOrDoubledAndTheConfirmedIsNeverAheadOfTheDisk) {
  testing::ScratchDir links("links");
  testing::CrashFileSystem disk(links.path());
  FeedFixture fixture(/*replays_exactly=*/true, disk.env());
  Prepare(fixture);
  fixture.source().Yield(TransactionBatch(20, {1}));
  fixture.source().Yield(TransactionBatch(30, {2, 3}));
  {
    IngestLoop loop(fixture.feed(), *log_, [&, batches = 0](IngestStep step) mutable {
      if (step != GetParam() || ++batches < 2) return absl::OkStatus();
      disk.LosePower();
      return absl::AbortedError("crash");
    });
    // Ends by itself, at the crash.
    loop.Run();
  }
  const auto events = fixture.source().events();
  fixture.Close();
  disk.PowerOn();
  fixture.Open();

  // What the source was told is on the disk.
  const bool confirmed = std::count(events.begin(), events.end(), "confirm 30") > 0;
  const Position kept = fixture.feed().store().head();
  EXPECT_GE(kept, confirmed ? At(30) : At(20));
  // The source yields again what lies behind the checkpoint.
  if (kept < At(30)) fixture.source().Yield(TransactionBatch(30, {2, 3}));
  fixture.source().Yield(TransactionBatch(40, {4}));
  RunUntilConfirmed(fixture, 40);
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1", "30:2", "40:1"));
}

INSTANTIATE_TEST_SUITE_P(Steps, CrashPoint, ::testing::ValuesIn(kAllSteps),
                         [](const auto& info) { return Name(info.param); });

TEST_F(IngestLoopTest, AnErrorThatMayPassIsTriedAgainFromTheCheckpoint) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().Yield(TransactionBatch(20, {1}));
  fixture.source().Fail(Error(reason::kSourceUnreachable));
  fixture.source().FailOpen(absl::OkStatus());
  fixture.source().FailOpen(Error(reason::kSlotActive));
  fixture.source().Yield(TransactionBatch(30, {2}));
  RunUntilConfirmed(fixture, 30);
  const auto events = fixture.source().events();
  EXPECT_THAT(std::vector<std::string>(events.end() - 8, events.end()),
              ElementsAre("open 10", "confirm 20", "close", "open 20", "close", "open 20",
                          "confirm 30", "close"));
  EXPECT_FALSE(fixture.feed().Status().has_last_error());
}

TEST_F(IngestLoopTest, WhileItWaitsTheErrorIsShown) {
  FeedFixture fixture;
  Prepare(fixture);
  for (int i = 0; i < 50; ++i) fixture.source().FailOpen(Error(reason::kSourceUnreachable));
  FeedRunner runner(fixture.feed(), *log_);
  EXPECT_TRUE(WaitUntil([&] { return fixture.feed().Status().last_error().attempts() >= 2; }, 10s,
                        [&] { return fixture.feed().Status().DebugString(); }));
  const v1::FeedStatus status = fixture.feed().Status();
  EXPECT_EQ(status.last_error().reason(), "SOURCE_UNREACHABLE");
  EXPECT_EQ(status.last_error().message(), "as the test wants it");
  EXPECT_TRUE(status.last_error().retried());
  EXPECT_EQ(fixture.feed().StateWhenCaughtUp(), v1::FEED_STATE_SOURCE_DOWN);
  // In the middle of a wait it still stops at once.
  EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(10)));
}

TEST_F(IngestLoopTest, AnErrorThatNeedsAPersonEndsTheLoop) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().FailOpen(Error(reason::kSlotLost));
  FeedRunner runner(fixture.feed(), *log_);
  EXPECT_TRUE(
      WaitUntil([&] { return fixture.feed().Status().source_state() == v1::SOURCE_STATE_FAILED; },
                10s, [&] { return fixture.feed().Status().DebugString(); }));
  const v1::FeedStatus status = fixture.feed().Status();
  EXPECT_EQ(status.last_error().reason(), "SLOT_LOST");
  EXPECT_FALSE(status.last_error().retried());
  EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(10)));
  // Stopping does not hide it.
  EXPECT_EQ(fixture.feed().Status().source_state(), v1::SOURCE_STATE_FAILED);
  EXPECT_EQ(fixture.source().CountOf("open 10"), 1u);
}

// proves R61
TEST_F(IngestLoopTest, AFullDiskIsLoudAndMovesNothing) {
  testing::ScratchDir links("links");
  testing::CrashFileSystem disk(links.path());
  FeedFixture fixture(/*replays_exactly=*/true, disk.env());
  Prepare(fixture);
  disk.SetSpaceLeft(0);
  fixture.source().Yield(TransactionBatch(20, {1}));
  FeedRunner runner(fixture.feed(), *log_);
  EXPECT_TRUE(
      WaitUntil([&] { return fixture.feed().Status().last_error().reason() == "STORE_FULL"; }, 10s,
                [&] { return fixture.feed().Status().DebugString(); }));
  EXPECT_EQ(fixture.source().CountOf("confirm 20"), 0u);
  disk.SetSpaceLeft(std::nullopt);
  fixture.source().Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntilConfirmed(fixture, 20));
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1"));
  EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(10)));
}

TEST_F(IngestLoopTest, ALargeTransactionIsSpooledAndSeenOnlyWhenItCommits) {
  FeedFixture fixture;
  Prepare(fixture);
  capture::CaptureBatch parts;
  parts.events.push_back(capture::SchemaSeen{SampleTable()});
  parts.events.push_back(capture::LargePart{7, {SampleRun(0, {1, 2}, v1::OP_INSERT)}});
  fixture.source().Yield(parts);
  fixture.source().Yield(TransactionBatch(20, {9}));
  capture::CaptureBatch commit;
  commit.events.push_back(capture::LargePart{7, {SampleRun(2, {3}, v1::OP_INSERT)}});
  v1::CommitRecord record = testing::SampleTransaction(30, {1, 2, 3}).record;
  commit.events.push_back(capture::LargeCommitted{7, At(30), record});
  commit.checkpoint = testing::CheckpointAt(30);
  fixture.source().Yield(commit);
  StepRecorder steps(fixture, At(30));
  RunUntilConfirmed(fixture, 30, steps.observer());
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1", "30:3"));
  // Nothing of the parts alone was published, synced or confirmed.
  const std::vector<std::string> lines = steps.lines();
  EXPECT_THAT(std::vector<std::string>(lines.begin(), lines.begin() + 2),
              ElementsAre("read", "read"));
  EXPECT_EQ(fixture.feed().Status().changes_captured(), 4u);
}

TEST_F(IngestLoopTest, PartsOfALostConnectionAreForgottenBeforeTheirHandleIsUsedAgain) {
  FeedFixture fixture;
  Prepare(fixture);
  capture::CaptureBatch parts;
  parts.events.push_back(capture::SchemaSeen{SampleTable()});
  parts.events.push_back(capture::LargePart{1, {SampleRun(0, {1, 2}, v1::OP_INSERT)}});
  fixture.source().Yield(parts);
  fixture.source().Fail(Error(reason::kSourceUnreachable));
  fixture.source().Yield(parts);
  capture::CaptureBatch commit;
  commit.events.push_back(
      capture::LargeCommitted{1, At(30), testing::SampleTransaction(30, {1, 2}).record});
  commit.checkpoint = testing::CheckpointAt(30);
  fixture.source().Yield(commit);
  RunUntilConfirmed(fixture, 30);
  EXPECT_THAT(fixture.Log(), ElementsAre("30:2"));
}

TEST_F(IngestLoopTest, AbortedPartsNeverWere) {
  FeedFixture fixture;
  Prepare(fixture);
  capture::CaptureBatch parts;
  parts.events.push_back(capture::SchemaSeen{SampleTable()});
  parts.events.push_back(capture::LargePart{1, {SampleRun(0, {1, 2}, v1::OP_INSERT)}});
  parts.events.push_back(capture::LargeAborted{1});
  fixture.source().Yield(parts);
  fixture.source().Yield(TransactionBatch(20, {5}));
  RunUntilConfirmed(fixture, 20);
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1"));
}

// What stands behind the parts came while they came, and larger than what is held in memory.
TEST_F(IngestLoopTest, PartsOfOneTransactionFollowThoseOfAnother) {
  FeedFixture fixture;
  Prepare(fixture);
  constexpr int64_t kIds = 60'000;
  std::vector<EncodedRun> behind;
  uint64_t bytes = 0;
  for (int64_t id = 0; id < kIds; id += 3) {
    behind.push_back(SampleRun(static_cast<uint64_t>(id), {id, id + 1, id + 2}, v1::OP_INSERT));
    bytes += behind.back().bytes.size();
  }
  ASSERT_GT(bytes, limits::joined_bytes_max);
  const std::vector<EncodedRun> first = {SampleRun(0, {-1, -2}, v1::OP_READ)};
  const std::vector<EncodedRun> second = {SampleRun(2, {-3}, v1::OP_READ)};
  capture::CaptureBatch parts;
  parts.events.push_back(capture::SchemaSeen{SampleTable()});
  parts.events.push_back(capture::LargePart{7, first});
  parts.events.push_back(capture::LargePart{8, behind});
  fixture.source().Yield(parts);
  fixture.source().Yield(TransactionBatch(20, {9}));
  capture::CaptureBatch commit;
  commit.events.push_back(capture::LargePart{7, second});
  commit.events.push_back(capture::LargeJoined{7, 8, 3});
  v1::CommitRecord record = testing::SampleTransaction(30, {1}).record;
  record.set_changes(3 + kIds);
  record.set_bytes(bytes + first[0].bytes.size() + second[0].bytes.size());
  commit.events.push_back(capture::LargeCommitted{7, At(30), record});
  commit.checkpoint = testing::CheckpointAt(30);
  fixture.source().Yield(commit);
  RunUntilConfirmed(fixture, 30);
  EXPECT_THAT(fixture.Log(), ElementsAre("20:1", "30:60003"));
  auto reader = fixture.feed().store().NewLogReader(At(20));
  ASSERT_TRUE(reader.ok()) << reader.status();
  store::StoredRun run;
  uint64_t sequence = 0;
  bool ended = false;
  for (auto more = (*reader)->Next(&run); more.ok() && *more; more = (*reader)->Next(&run)) {
    ended = run.last_of_transaction;
    v1::Run changes;
    ASSERT_TRUE(changes.ParseFromString(std::string(run.bytes)));
    EXPECT_EQ(run.first_sequence, sequence);
    for (const v1::Change& change : changes.changes()) {
      const auto id = static_cast<int64_t>(sequence++);
      EXPECT_EQ(change.after(0).integer(), id < 3 ? -1 - id : id - 3);
    }
  }
  EXPECT_EQ(sequence, 3u + kIds);
  EXPECT_TRUE(ended);
}

TEST_F(IngestLoopTest, StatusCountsWhatWasCaptured) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().Yield(TransactionBatch(20, {1, 2}));
  fixture.source().Yield(TransactionBatch(30, {3}));
  FeedRunner runner(fixture.feed(), *log_);
  ASSERT_TRUE(WaitUntilConfirmed(fixture, 30));
  const v1::FeedStatus status = fixture.feed().Status();
  EXPECT_EQ(status.source_state(), v1::SOURCE_STATE_STREAMING);
  EXPECT_EQ(status.transactions_captured(), 2u);
  EXPECT_EQ(status.changes_captured(), 3u);
  EXPECT_EQ(status.head().position(), At(30).Text());
  EXPECT_EQ(status.head().native_position(), "30");
  EXPECT_EQ(status.head().commit_time().seconds(), 30);
  EXPECT_EQ(status.checkpoint().native_position(), "30");
  EXPECT_EQ(status.floor().native_position(), "10");
  EXPECT_EQ(fixture.feed().StateWhenCaughtUp(), v1::FEED_STATE_LIVE);
  EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(10)));
}

TEST_F(IngestLoopTest, AStuckSourceIsReportedAtStop) {
  FeedFixture fixture;
  Prepare(fixture);
  fixture.source().SetStuck(true);
  FeedRunner runner(fixture.feed(), *log_);
  ASSERT_TRUE(WaitUntil([&] { return fixture.source().CountOf("open 10") > 0; }, 10s));
  EXPECT_FALSE(runner.StopBefore(absl::Now() + absl::Milliseconds(50)));
  fixture.source().SetStuck(false);
  EXPECT_TRUE(runner.StopBefore(absl::Now() + absl::Seconds(10)));
}

}  // namespace
}  // namespace tidemark
