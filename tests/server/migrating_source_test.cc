// The way of a feed from polling to the log, step by step, between two sources that do what the
// test says.
#include "capture/migration/migrating_source.h"

#include <gmock/gmock.h>

#include <deque>

#include "proto/reason.h"
#include "tests/server/scripted_source.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using capture::CaptureBatch;
using capture::LogPlan;
using capture::MigratingSource;
using capture::SlotMove;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr capture::postgres::Lsn kSlotAt = 0x2000000;
constexpr capture::postgres::Lsn kSwitchAt = 0x2000100;

class ScriptedSide final : public capture::LogSide {
 public:
  absl::StatusOr<LogPlan> Check(const std::vector<capture::PolledKey>&,
                                const v1::PostgresIdentity&) override {
    checked = true;
    return plan;
  }
  absl::StatusOr<SlotMove> MoveSlot(const capture::PollSight&, bool exactly) override {
    asked_exactly.push_back(exactly);
    if (moves.empty()) return SlotMove{SlotMove::Kind::kMoved, kSwitchAt, true, ""};
    auto move = moves.front();
    moves.pop_front();
    return move;
  }
  absl::Status TakeAway(const v1::MigrationRecord& record) override {
    taken_away.push_back(record.slot() + " " + record.publication());
    return take_away;
  }
  void Interrupt() override {}

  absl::StatusOr<LogPlan> plan;
  std::deque<absl::StatusOr<SlotMove>> moves;
  absl::Status take_away;
  std::atomic<bool> checked = false;  // by a thread of the check
  std::vector<bool> asked_exactly;
  std::vector<std::string> taken_away;
};

// The batch with which the log source goes on behind a break.
CaptureBatch GapAt(capture::postgres::Lsn at) {
  CaptureBatch batch;
  batch.gap.emplace().set_reason("polling");
  batch.gap->set_to(std::string(Position::Of(2, at).bytes()));
  batch.checkpoint.emplace().set_position(std::string(Position::Of(2, at).bytes()));
  batch.checkpoint->set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
  batch.checkpoint->mutable_postgres()->set_consistent_lsn(at);
  batch.checkpoint->mutable_postgres()->set_timeline(5);
  batch.table_states.emplace_back().set_schema_name("public");
  batch.table_states.back().set_table_name("orders");
  batch.table_states.back().set_followed(true);
  batch.table_states.back().mutable_reading();
  batch.made = true;
  return batch;
}

CaptureBatch Logged(capture::postgres::Lsn at) {
  CaptureBatch batch = GapAt(at);
  batch.gap.reset();
  batch.table_states.clear();
  return batch;
}

class MigratingSourceTest : public ::testing::Test {
 protected:
  MigratingSourceTest() {
    checkpoint_ = CheckpointAt(polls_);
    checkpoint_.mutable_poll();
    Start();
  }

  // As after a crash: with what is durable.
  void Start() {
    source_.reset();
    MigratingSource::Parts parts;
    parts.feed = "main";
    parts.tables = {{"public", "orders", {}}};
    auto poll = std::make_unique<ScriptedSource>(false);
    auto log = std::make_unique<ScriptedSource>(true);
    auto side = std::make_unique<ScriptedSide>();
    poll_ = poll.get();
    log_ = log.get();
    log->SetNativePrefix("log ");
    side_ = side.get();
    LogPlan plan;
    plan.server.set_system_identifier("7");
    plan.slot = "tidemark_main";
    plan.publication_to_make = "tidemark_main";
    side->plan = plan;
    parts.poll = std::move(poll);
    parts.log = std::move(log);
    parts.side = std::move(side);
    parts.sight = [this] { return sight_; };
    parts.tell_all = [this](bool all) { tells_all_ = all; };
    source_ = std::make_unique<MigratingSource>(std::move(parts));
    const absl::Status opened = source_->Open(checkpoint_, generation_);
    ASSERT_TRUE(opened.ok()) << opened;
  }

  void Order(bool roll_back = false) {
    source_->OrderMigration(
        {roll_back, [this](const absl::Status& status) { answers_.push_back(status); }});
  }
  // One batch, which is lost with the process unless it is kept.
  std::optional<CaptureBatch> Read(bool keep = true) {
    auto batch = source_->Read(absl::Now());
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return std::nullopt;
    if (batch->checkpoint && keep) {
      checkpoint_ = *batch->checkpoint;
      if (batch->gap) ++generation_;
      EXPECT_TRUE(source_->Confirm(Position()).ok());
    }
    return *std::move(batch);
  }
  // The last poll that ended.
  bool ReadThatPoll() {
    return WaitUntil(
        [&] {
          Read();
          return checkpoint_.position() == At(polls_).bytes();
        },
        std::chrono::seconds(20));
  }
  ::testing::AssertionResult ReadUntil(v1::MigrationPhase phase) {
    return WaitUntil(
        [&] {
          Read();
          return checkpoint_.migration().phase() == phase;
        },
        std::chrono::seconds(20), [&] { return checkpoint_.ShortDebugString(); });
  }
  void EndPoll() {
    CaptureBatch batch = IdleBatch(++polls_);
    batch.checkpoint->mutable_poll();
    poll_->Yield(std::move(batch));
  }
  // Up to the slot.
  void Prepare() {
    Order();
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
    log_->Yield(GapAt(kSlotAt));
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARED));
  }
  void Overlap() {
    Prepare();
    EndPoll();
    EndPoll();
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  }
  void Switch() {
    log_->Yield(GapAt(kSwitchAt));
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_SWITCHED));
  }
  std::string StatusText() const {
    v1::FeedStatus status;
    source_->FillStatus(&status);
    return status.migration().phase() + ": " + status.migration().message();
  }

  uint64_t polls_ = 10;
  uint32_t generation_ = 1;
  bool tells_all_ = false;
  std::optional<capture::PollSight> sight_ = capture::PollSight{0, "1:1:", true};
  v1::Checkpoint checkpoint_;
  ScriptedSource* poll_ = nullptr;
  ScriptedSource* log_ = nullptr;
  ScriptedSide* side_ = nullptr;
  std::unique_ptr<MigratingSource> source_;
  std::vector<absl::Status> answers_;
};

// proves A30, A46
TEST_F(MigratingSourceTest, GoesFromPollingToTheLogStepByStep) {
  Order();
  EXPECT_TRUE(WaitUntil(
      [&] {
        const auto batch = Read(/*keep=*/false);
        return batch && batch->checkpoint;
      },
      std::chrono::seconds(20)));
  // It is not durable yet: nothing was answered, and nothing made.
  Read(false);
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_THAT(log_->events(), Not(Contains(HasSubstr("open"))));
  Start();
  answers_.clear();
  Prepare();
  EXPECT_THAT(answers_, ElementsAre(absl::OkStatus()));
  EXPECT_THAT(log_->events(), Contains("open 0 heals polling"));
  EXPECT_EQ(checkpoint_.migration().slot(), "tidemark_main");
  EXPECT_EQ(checkpoint_.migration().consistent_lsn(), kSlotAt);
  EXPECT_EQ(checkpoint_.migration().postgres().timeline(), 5u);
  EXPECT_EQ(checkpoint_.position(), std::string(At(polls_).bytes()));

  EndPoll();
  Read();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_PREPARED);
  EndPoll();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  EXPECT_EQ(checkpoint_.migration().overlapping_poll(), polls_);
  EXPECT_EQ(source_->Describe().replays_exactly, false);
  log_->Yield(GapAt(kSwitchAt));
  const auto batch = Read();
  ASSERT_TRUE(batch && batch->gap);
  EXPECT_EQ(batch->gap->reason(), "") << "nothing is missing there";
  EXPECT_EQ(batch->gap->from(), std::string(At(polls_).bytes()));
  EXPECT_TRUE(batch->made);
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_SWITCHED);
  EXPECT_EQ(checkpoint_.migration().consistent_lsn(), kSwitchAt);
  EXPECT_TRUE(checkpoint_.has_postgres());
  EXPECT_EQ(poll_->events().back(), "close");
  EXPECT_EQ(source_->Describe().replays_exactly, true);

  // Until the tables were compared.
  log_->Yield(Logged(kSwitchAt + 1));
  Read();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_SWITCHED);
  CaptureBatch compared = Logged(kSwitchAt + 2);
  compared.table_states.emplace_back().set_schema_name("public");
  compared.table_states.back().set_table_name("orders");
  compared.table_states.back().set_followed(true);
  log_->Yield(std::move(compared));
  Read();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_UNSPECIFIED);
  EXPECT_EQ(StatusText(), ": ");
  Order();
  Read();
  EXPECT_EQ(ReasonOf(answers_.back()), reason::kMigrationRefused);
}

// As many polls as there may be places in a log: what a position is, its generation says, also in
// later lives of the server and when the move has long ended.
TEST_F(MigratingSourceTest, APositionOfAPollStaysOne) {
  const Position polled = Position::Of(1, uint64_t{0x3000000});
  const Position logged = Position::Of(2, uint64_t{kSwitchAt + 1});
  EXPECT_EQ(source_->NativeText(polled), "50331648");
  Overlap();
  Switch();
  const auto expect_told_apart = [&] {
    EXPECT_EQ(source_->NativeText(polled), "50331648");
    EXPECT_EQ(source_->NativeText(logged), "log 33554689");
  };
  expect_told_apart();
  Start();
  expect_told_apart();
  for (const auto at : {kSwitchAt + 1, kSwitchAt + 2}) {
    log_->Yield(Logged(at));
    Read();
  }
  ASSERT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_UNSPECIFIED);
  Start();
  expect_told_apart();
}

// proves A30: each step is durable, and goes on from there.
TEST_F(MigratingSourceTest, GoesOnAfterACrashInEachPhase) {
  Order();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
  Start();
  log_->Yield(GapAt(kSlotAt));
  Read(/*keep=*/false);
  Start();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_PREPARING);
  log_->Yield(GapAt(kSlotAt));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARED));
  EndPoll();
  Read();
  Start();
  // A poll that ended before it was forgotten with the process.
  EndPoll();
  Read();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_PREPARED);
  EndPoll();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  Start();
  Read();
  EXPECT_THAT(side_->asked_exactly, IsEmpty()) << "what the last poll saw is not known any more";
  EndPoll();
  Read();
  log_->Yield(GapAt(kSwitchAt));
  Read(/*keep=*/false);
  Start();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_OVERLAPPED);
  EndPoll();
  Switch();
  Start();
  EXPECT_THAT(poll_->events(), Not(Contains(HasSubstr("open"))));
  log_->Yield(Logged(kSwitchAt + 1));
  const auto batch = Read();
  EXPECT_EQ(batch->checkpoint->migration().phase(), v1::MIGRATION_PHASE_UNSPECIFIED)
      << "no table is left to be compared";
}

// proves A30: nothing that goes wrong with the log stops polling.
TEST_F(MigratingSourceTest, PollsOnWhileTheLogCannotBePrepared) {
  Order();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
  log_->FailOpen(
      ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourcePrivilege, "may not"));
  EndPoll();
  ASSERT_TRUE(ReadThatPoll());
  EXPECT_THAT(StatusText(), HasSubstr("preparing: trying again: SOURCE_PRIVILEGE: may not"));
  log_->Yield(GapAt(kSlotAt));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARED));
  EndPoll();
  EndPoll();
  side_->moves.emplace_back(
      ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSlotActive, "somebody has it"));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  EndPoll();
  ASSERT_TRUE(WaitUntil(
      [&] {
        Read();
        return StatusText().find("SLOT_ACTIVE") != std::string::npos;
      },
      std::chrono::seconds(20)));
  EndPoll();
  Switch();
}

// proves A30, A46
TEST_F(MigratingSourceTest, WaitsForAPollWhoseSnapshotIsAPlaceInTheLog) {
  for (int i = 0; i < capture::kExactSwitchesTried; ++i) {
    side_->moves.emplace_back(SlotMove{SlotMove::Kind::kNotExact, 0, false, ""});
  }
  Overlap();
  for (int i = 0; i < capture::kExactSwitchesTried; ++i) {
    Read();
    EndPoll();
    Read();
  }
  Switch();
  EXPECT_EQ(side_->asked_exactly.size(), capture::kExactSwitchesTried + 1u);
  EXPECT_TRUE(side_->asked_exactly.front());
  EXPECT_FALSE(side_->asked_exactly.back()) << "it does not wait for ever";
}

// proves A30: a slot that holds much keeps no poll waiting, and none of its parts is a try.
TEST_F(MigratingSourceTest, PollsBetweenThePartsOfASlotThatHoldsMuch) {
  const SlotMove part{SlotMove::Kind::kMovedInPart, kSlotAt + 8, true, ""};
  for (int i = 0; i <= capture::kExactSwitchesTried; ++i) side_->moves.emplace_back(part);
  Overlap();
  Read();
  EXPECT_THAT(StatusText(), HasSubstr("overlapped: slot tidemark_main holds much"));
  EndPoll();
  ASSERT_TRUE(ReadThatPoll());
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_OVERLAPPED);
  EXPECT_THAT(side_->moves, Not(IsEmpty()));
  // No other poll is needed for the rest.
  Switch();
  EXPECT_EQ(side_->asked_exactly.size(), capture::kExactSwitchesTried + 2u);
  EXPECT_THAT(side_->asked_exactly, Not(Contains(false)));
}

// proves A46: polls that tell nothing end without a checkpoint, and the one that runs may have
// begun before the slot was there.
TEST_F(MigratingSourceTest, CountsPollsFromTheLastThatEndedBeforeTheSlot) {
  sight_->poll = polls_ += 3;
  Prepare();
  EXPECT_TRUE(tells_all_);
  EndPoll();
  Read();
  EXPECT_EQ(checkpoint_.migration().phase(), v1::MIGRATION_PHASE_PREPARED);
  EndPoll();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  Order(/*roll_back=*/true);
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_UNSPECIFIED));
  EXPECT_FALSE(tells_all_);
}

TEST_F(MigratingSourceTest, IsPreparedAgainWhereTheSlotIsGone) {
  side_->moves.emplace_back(SlotMove{SlotMove::Kind::kGone, 0, false, "slot x is gone"});
  Overlap();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
  EXPECT_THAT(StatusText(), HasSubstr("slot x is gone"));
  log_->Yield(GapAt(kSlotAt + 8));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARED));
  EXPECT_EQ(checkpoint_.migration().consistent_lsn(), kSlotAt + 8);
  // And where it does not stand where it was put.
  EndPoll();
  EndPoll();
  log_->Yield(GapAt(kSwitchAt + 1));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_OVERLAPPED));
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
  EXPECT_EQ(checkpoint_.has_postgres(), false);
}

TEST_F(MigratingSourceTest, SwitchesBehindAPollAlone) {
  sight_.reset();
  Overlap();
  Read();
  EXPECT_THAT(side_->asked_exactly, IsEmpty());
  sight_ = capture::PollSight{0, "1:1:", false};
  EndPoll();
  Switch();
  EXPECT_THAT(side_->asked_exactly, ElementsAre(false)) << "a standby does not say what it saw";
}

TEST_F(MigratingSourceTest, DoesNotSwitchBeforeAPollThatSomebodyWaitsFor) {
  Overlap();
  source_->Prove(At(polls_ + 1));
  Read();
  EXPECT_THAT(side_->asked_exactly, IsEmpty());
  EndPoll();
  Read();
  Switch();
}

// No step comes between the parts of one poll.
TEST_F(MigratingSourceTest, TakesNoStepWithinAPoll) {
  CaptureBatch part = TransactionBatch(polls_ + 1, {1});
  part.checkpoint.reset();
  poll_->Yield(std::move(part));
  ASSERT_FALSE(Read()->events.empty());
  Order();
  ASSERT_TRUE(WaitUntil(
      [&] {
        const auto batch = Read();
        EXPECT_FALSE(batch->checkpoint);
        return side_->checked.load();
      },
      std::chrono::seconds(20)));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(Read()->checkpoint);
  EndPoll();
  ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_PREPARING));
}

// proves A30
TEST_F(MigratingSourceTest, IsRolledBackInEachPhaseBeforeTheSwitch) {
  for (const auto phase : {v1::MIGRATION_PHASE_PREPARING, v1::MIGRATION_PHASE_PREPARED,
                           v1::MIGRATION_PHASE_OVERLAPPED}) {
    side_->taken_away.clear();
    if (phase == v1::MIGRATION_PHASE_PREPARING) {
      Order();
      ASSERT_TRUE(ReadUntil(phase));
    } else if (phase == v1::MIGRATION_PHASE_PREPARED) {
      Prepare();
    } else {
      side_->moves.emplace_back(SlotMove{SlotMove::Kind::kNotExact, 0, false, ""});
      Overlap();
    }
    Order(/*roll_back=*/true);
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_ROLLING_BACK));
    EXPECT_THAT(side_->taken_away, IsEmpty()) << "not before it is durable";
    EXPECT_EQ(answers_.back(), absl::OkStatus());
    Start();
    // It is done, and not stored: it is done again.
    Read(/*keep=*/false);
    EXPECT_THAT(side_->taken_away, ElementsAre("tidemark_main tidemark_main"));
    Start();
    ASSERT_TRUE(ReadUntil(v1::MIGRATION_PHASE_UNSPECIFIED));
    EXPECT_THAT(side_->taken_away, ElementsAre("tidemark_main tidemark_main"));
    EXPECT_FALSE(checkpoint_.has_migration());
    EXPECT_EQ(StatusText(), ": ");
  }
  Overlap();
  Switch();
  Order(/*roll_back=*/true);
  Read();
  EXPECT_EQ(ReasonOf(answers_.back()), reason::kMigrationRefused);
}

TEST_F(MigratingSourceTest, RefusesWhatTheCheckFoundAndTouchesNothing) {
  side_->plan = capture::MigrationRefused("main", "wal_level is replica");
  Order();
  ASSERT_TRUE(WaitUntil(
      [&] {
        Read();
        return !answers_.empty();
      },
      std::chrono::seconds(20)));
  EXPECT_THAT(std::string(answers_[0].message()), HasSubstr("wal_level is replica"));
  EXPECT_FALSE(checkpoint_.has_migration());
  EXPECT_THAT(log_->events(), Not(Contains(HasSubstr("open"))));
  Order(/*roll_back=*/true);
  Read();
  EXPECT_EQ(ReasonOf(answers_.back()), reason::kMigrationRefused);
  source_->Close();
  Order();
  EXPECT_EQ(ReasonOf(answers_.back()), reason::kSourceUnreachable);
}

// What was found stands, also where the feed is closed before it is told.
TEST_F(MigratingSourceTest, AnOrderThatIsBeingCheckedIsAnsweredWhenTheFeedIsClosed) {
  const LogPlan plan = *side_->plan;
  const std::vector<std::pair<absl::StatusOr<LogPlan>, std::string>> checks = {
      {capture::MigrationRefused("main", "wal_level is replica"),
       std::string(reason::kMigrationRefused)},
      {absl::CancelledError("interrupted"), std::string(reason::kSourceUnreachable)},
      {plan, std::string(reason::kSourceUnreachable)},
  };
  for (const auto& [found, answer] : checks) {
    Start();
    side_->plan = found;
    answers_.clear();
    Order();
    Read();
    EXPECT_THAT(answers_, IsEmpty());
    source_->Close();
    ASSERT_EQ(answers_.size(), 1u);
    EXPECT_EQ(ReasonOf(answers_[0]), answer) << answers_[0];
    EXPECT_FALSE(checkpoint_.has_migration());
  }
}

}  // namespace
}  // namespace tidemark::testing
