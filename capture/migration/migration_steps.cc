#include "capture/migration/migration_steps.h"

#include <fmt/format.h>

#include "proto/position.h"
#include "proto/reason.h"

namespace tidemark::capture {

MigrationStep NextStep(const MigrationFacts& facts) {
  if (facts.phase == v1::MIGRATION_PHASE_SWITCHED) return MigrationStep::kFollowsLog;
  if (!facts.settled || !facts.due) return MigrationStep::kPoll;
  switch (facts.phase) {
    case v1::MIGRATION_PHASE_PREPARING:
      return MigrationStep::kPrepare;
    case v1::MIGRATION_PHASE_OVERLAPPED:
      return facts.has_fresh_poll ? MigrationStep::kSwitch : MigrationStep::kPoll;
    case v1::MIGRATION_PHASE_ROLLING_BACK:
      return MigrationStep::kTakeAway;
    default:
      return MigrationStep::kPoll;
  }
}

v1::MigrationPhase PhaseBehindPoll(v1::MigrationPhase phase, uint64_t polls) {
  const bool overlaps = phase == v1::MIGRATION_PHASE_PREPARED && polls >= kPollsBehindSlot;
  return overlaps ? v1::MIGRATION_PHASE_OVERLAPPED : phase;
}

OrderVerdict JudgeOrder(const v1::Checkpoint& checkpoint, bool roll_back, bool has_end) {
  const v1::MigrationPhase phase = checkpoint.migration().phase();
  if (checkpoint.has_postgres()) {
    if (phase == v1::MIGRATION_PHASE_SWITCHED && !roll_back) return {OrderAnswer::kUnderWay, ""};
    return {OrderAnswer::kRefuse,
            "it is captured from the log already; tidemark status shows whether its tables are "
            "still compared, and the poll block of its configuration can go"};
  }
  if (roll_back) {
    if (phase == v1::MIGRATION_PHASE_UNSPECIFIED) {
      return {OrderAnswer::kRefuse, "no migration of it is under way"};
    }
    return {
        phase == v1::MIGRATION_PHASE_ROLLING_BACK ? OrderAnswer::kUnderWay : OrderAnswer::kRollBack,
        ""};
  }
  if (phase == v1::MIGRATION_PHASE_ROLLING_BACK) {
    return {OrderAnswer::kRefuse,
            "what an earlier migration prepared is being taken away; order it again when tidemark "
            "status shows no migration"};
  }
  if (phase != v1::MIGRATION_PHASE_UNSPECIFIED) return {OrderAnswer::kUnderWay, ""};
  if (checkpoint.snapshot_phase() != v1::SNAPSHOT_PHASE_WHOLE) {
    return {OrderAnswer::kRefuse, "its first poll has not ended; order it again when it has"};
  }
  if (checkpoint.has_broken()) {
    return {OrderAnswer::kRefuse,
            fmt::format("it is broken ({}): {}. Bring it out of that first (tidemark recover)",
                        checkpoint.broken().reason(), checkpoint.broken().message())};
  }
  if (has_end) {
    return {OrderAnswer::kRefuse,
            "its capture is to end at a point that was set for polling, which says nothing of the "
            "log; lift that first: tidemark stop FEED --at never"};
  }
  return {OrderAnswer::kBegin, ""};
}

std::string PhaseWord(v1::MigrationPhase phase) {
  switch (phase) {
    case v1::MIGRATION_PHASE_PREPARING:
      return "preparing";
    case v1::MIGRATION_PHASE_PREPARED:
      return "prepared";
    case v1::MIGRATION_PHASE_OVERLAPPED:
      return "overlapped";
    case v1::MIGRATION_PHASE_SWITCHED:
      return "switched";
    case v1::MIGRATION_PHASE_ROLLING_BACK:
      return "rolling_back";
    default:
      return "";
  }
}

v1::Checkpoint CheckpointForLog(const v1::Checkpoint& polled) {
  const v1::PostgresIdentity& server = polled.migration().postgres();
  const uint32_t generation =
      Position::FromBytes(polled.position()).value_or(Position()).generation();
  v1::Checkpoint checkpoint;
  // Before every place of the log.
  checkpoint.set_position(std::string(Position::Of(generation, uint64_t{0}).bytes()));
  checkpoint.set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
  checkpoint.set_snapshot_time_us(polled.snapshot_time_us());
  checkpoint.mutable_postgres()->set_system_identifier(server.system_identifier());
  checkpoint.mutable_postgres()->set_database(server.database());
  checkpoint.mutable_postgres()->set_timeline(server.timeline());
  checkpoint.mutable_postgres()->set_publication_made(!polled.migration().publication().empty());
  v1::BreakRecord* broken = checkpoint.mutable_broken();
  broken->set_policy(v1::RECOVERY_POLICY_RESNAPSHOT);
  broken->set_reason("polling");
  broken->set_message("the feed was polled until now");
  // As slot_healing.h has it.
  broken->set_prepared_in(server.system_identifier() + "/" + server.database());
  return checkpoint;
}

absl::Status MigrationRefused(const std::string& feed, const std::string& why) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kMigrationRefused,
                         fmt::format("feed {} is not moved to the log: {}", feed, why),
                         {{"feed", feed}});
}

}  // namespace tidemark::capture
