// The way from polling to the log as a table of decisions.
#include "capture/migration/migration_steps.h"

#include <gmock/gmock.h>

#include "capture/postgres/slot_healing.h"
#include "proto/position.h"

namespace tidemark::capture {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

MigrationStep StepOf(v1::MigrationPhase phase, bool settled = true, bool due = true,
                     bool fresh = true) {
  return NextStep({.phase = phase, .settled = settled, .due = due, .has_fresh_poll = fresh});
}

// proves A30
TEST(MigrationStepsTest, NothingIsDoneByAPhaseBeforeItIsDurable) {
  using enum MigrationStep;
  struct Row {
    v1::MigrationPhase phase;
    MigrationStep settled;
    MigrationStep unsettled;
    MigrationStep not_due;
    MigrationStep without_a_fresh_poll;
  };
  const Row rows[] = {
      {v1::MIGRATION_PHASE_UNSPECIFIED, kPoll, kPoll, kPoll, kPoll},
      {v1::MIGRATION_PHASE_PREPARING, kPrepare, kPoll, kPoll, kPrepare},
      {v1::MIGRATION_PHASE_PREPARED, kPoll, kPoll, kPoll, kPoll},
      {v1::MIGRATION_PHASE_OVERLAPPED, kSwitch, kPoll, kPoll, kPoll},
      {v1::MIGRATION_PHASE_SWITCHED, kFollowsLog, kFollowsLog, kFollowsLog, kFollowsLog},
      {v1::MIGRATION_PHASE_ROLLING_BACK, kTakeAway, kPoll, kPoll, kTakeAway},
  };
  for (const Row& row : rows) {
    const std::string phase = PhaseWord(row.phase);
    EXPECT_EQ(StepOf(row.phase), row.settled) << phase;
    EXPECT_EQ(StepOf(row.phase, false), row.unsettled) << phase;
    EXPECT_EQ(StepOf(row.phase, true, false), row.not_due) << phase;
    EXPECT_EQ(StepOf(row.phase, true, true, false), row.without_a_fresh_poll) << phase;
  }
}

// proves A30, A46: the first poll that ends may have begun before the slot was there.
TEST(MigrationStepsTest, TheSecondPollBehindTheSlotOverlaps) {
  EXPECT_EQ(PhaseBehindPoll(v1::MIGRATION_PHASE_PREPARED, 1), v1::MIGRATION_PHASE_PREPARED);
  EXPECT_EQ(PhaseBehindPoll(v1::MIGRATION_PHASE_PREPARED, 2), v1::MIGRATION_PHASE_OVERLAPPED);
  EXPECT_EQ(PhaseBehindPoll(v1::MIGRATION_PHASE_PREPARING, 9), v1::MIGRATION_PHASE_PREPARING);
  EXPECT_EQ(PhaseBehindPoll(v1::MIGRATION_PHASE_ROLLING_BACK, 9), v1::MIGRATION_PHASE_ROLLING_BACK);
}

class OrderTest : public ::testing::Test {
 protected:
  OrderTest() {
    checkpoint_.set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
    checkpoint_.mutable_poll();
  }
  OrderVerdict In(v1::MigrationPhase phase, bool roll_back) {
    if (phase != v1::MIGRATION_PHASE_UNSPECIFIED) checkpoint_.mutable_migration()->set_phase(phase);
    return JudgeOrder(checkpoint_, roll_back, false);
  }
  v1::Checkpoint checkpoint_;
};

// proves A30
TEST_F(OrderTest, IsTakenOnceAndRolledBackUntilTheSwitch) {
  EXPECT_EQ(In(v1::MIGRATION_PHASE_UNSPECIFIED, false).answer, OrderAnswer::kBegin);
  EXPECT_EQ(In(v1::MIGRATION_PHASE_UNSPECIFIED, true).answer, OrderAnswer::kRefuse);
  for (const auto phase : {v1::MIGRATION_PHASE_PREPARING, v1::MIGRATION_PHASE_PREPARED,
                           v1::MIGRATION_PHASE_OVERLAPPED}) {
    EXPECT_EQ(In(phase, false).answer, OrderAnswer::kUnderWay);
    EXPECT_EQ(In(phase, true).answer, OrderAnswer::kRollBack);
  }
  EXPECT_EQ(In(v1::MIGRATION_PHASE_ROLLING_BACK, true).answer, OrderAnswer::kUnderWay);
  EXPECT_THAT(In(v1::MIGRATION_PHASE_ROLLING_BACK, false).why, HasSubstr("being taken away"));
  checkpoint_.mutable_postgres();
  EXPECT_EQ(In(v1::MIGRATION_PHASE_SWITCHED, false).answer, OrderAnswer::kUnderWay);
  EXPECT_THAT(In(v1::MIGRATION_PHASE_SWITCHED, true).why, HasSubstr("from the log already"));
}

TEST_F(OrderTest, IsRefusedWithWhatToDo) {
  checkpoint_.mutable_broken()->set_reason("SOURCE_REWOUND");
  EXPECT_THAT(JudgeOrder(checkpoint_, false, false).why, HasSubstr("SOURCE_REWOUND"));
  checkpoint_.clear_broken();
  EXPECT_THAT(JudgeOrder(checkpoint_, false, true).why, HasSubstr("tidemark stop"));
  checkpoint_.set_snapshot_phase(v1::SNAPSHOT_PHASE_PREPARING);
  EXPECT_THAT(JudgeOrder(checkpoint_, false, false).why, HasSubstr("first poll"));
  checkpoint_.mutable_postgres();
  EXPECT_THAT(JudgeOrder(checkpoint_, false, false).why, HasSubstr("from the log already"));
}

// The log source must take the slot that was made for the move for its own, go on with it, and
// never drop it.
TEST(CheckpointForLogTest, GoesOnWithTheSlotThatWasMade) {
  v1::Checkpoint polled;
  polled.set_position(std::string(Position::Of(3, uint64_t{77}).bytes()));
  polled.set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
  v1::PostgresIdentity* server = polled.mutable_migration()->mutable_postgres();
  server->set_system_identifier("7");
  server->set_database("shop");
  server->set_timeline(2);
  const v1::Checkpoint checkpoint = CheckpointForLog(polled);
  EXPECT_EQ(Position::FromBytes(checkpoint.position())->generation(), 3u);
  const postgres::ServerFacts there = {
      .system_identifier = "7", .timeline = 2, .database = "shop", .flush_lsn = 0x2000};
  postgres::SlotFacts slot{.name = "s",
                           .type = "logical",
                           .plugin = "pgoutput",
                           .database = "shop",
                           .confirmed_flush = 1,
                           .restart = 1,
                           .wal_status = "reserved"};
  const auto decide = [&](const std::optional<postgres::SlotFacts>& found) {
    return postgres::DecideSlotHealing(checkpoint, 0, there, "s", found, true, false);
  };
  EXPECT_EQ(decide(slot).value(), postgres::SlotHealing::kGoOn);
  EXPECT_EQ(decide(std::nullopt).value(), postgres::SlotHealing::kMake);
  EXPECT_EQ(checkpoint.broken().prepared_in(), postgres::PlaceText(there));
}

}  // namespace
}  // namespace tidemark::capture
