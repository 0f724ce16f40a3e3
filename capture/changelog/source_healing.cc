// ChangelogSource: is it still the changelog that was read, and going on in a new generation where
// it is not.
#include <fmt/format.h>

#include <utility>

#include "absl/time/clock.h"
#include "capture/changelog/source.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

absl::Status Broken(std::string_view reason, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

}  // namespace

absl::Status CheckSame(const v1::ChangelogCheckpoint& told, const v1::ChangelogCheckpoint& present,
                       const std::string& where) {
  const v1::PostgresIdentity& before = told.postgres();
  const v1::PostgresIdentity& now = present.postgres();
  if (absl::Status same = postgres::CheckSameServer(before, now, where); !same.ok()) return same;
  const std::string was = TableNameText(told.schema_name(), told.table_name());
  const std::string is = TableNameText(present.schema_name(), present.table_name());
  if (was != is || told.table_oid() != present.table_oid()) {
    return Broken(reason::kSourceReplaced,
                  fmt::format("{} with OID {} in {} is not the changelog that this feed was read "
                              "from: {} with OID {}; it was made anew, renamed or restored from a "
                              "dump",
                              is, present.table_oid(), where, was, told.table_oid()));
  }
  if (before.timeline() != 0 && now.timeline() != 0 && before.timeline() != now.timeline()) {
    return Broken(
        reason::kSourceTimeline,
        fmt::format(
            "{} is on timeline {}, and the feed was read on timeline {}: a server that was "
            "promoted, or restored to a moment in the past, may lack transactions that were "
            "told, and may give out their ids and numbers again",
            where, now.timeline(), before.timeline()));
  }
  return absl::OkStatus();
}

absl::Status CheckNotRewound(const v1::ChangelogCheckpoint& told, const PullBegun& begun,
                             uint32_t table_oid, bool trimmed, bool in_recovery) {
  const std::string table = TableNameText(told.schema_name(), told.table_name());
  if (table_oid != told.table_oid()) {
    return Broken(reason::kSourceReplaced,
                  fmt::format("{} was made anew while it was read: its OID is {}, it was {}", table,
                              table_oid, told.table_oid()));
  }
  // A standby may be behind another one, or its primary, that was read before.
  if (in_recovery) return absl::OkStatus();
  const absl::StatusOr<postgres::XidSnapshot> now = postgres::XidSnapshot::Parse(begun.snapshot);
  if (!now.ok()) return now.status();
  if (now->xmax() <= told.watermark_xid()) {
    return Broken(reason::kSourceRewound,
                  fmt::format("the server has given out no transaction id beyond {}, but "
                              "transaction {} was told: it was set back",
                              now->xmax(), told.watermark_xid()));
  }
  if (!trimmed && begun.highest_seq < told.highest_seq()) {
    return Broken(reason::kSourceRewound,
                  fmt::format("the highest number in {} is {}, and {} was seen: it was emptied, or "
                              "the server was set back. Where rows are to be deleted, let the feed "
                              "do it: trim: true",
                              table, begun.highest_seq, told.highest_seq()));
  }
  return absl::OkStatus();
}

absl::Status ChangelogSource::OpenBroken(const v1::Checkpoint& checkpoint) {
  const v1::BreakRecord& broken = checkpoint.broken();
  if (broken.policy() != v1::RECOVERY_POLICY_RESNAPSHOT &&
      broken.policy() != v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    return Broken(
        broken.reason(),
        fmt::format("{} (found at {}; what the source looks like since then does not undo it)",
                    broken.message(),
                    absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMicros(broken.time_us()),
                                     absl::UTCTimeZone())));
  }
  healing_ = checkpoint;
  snapshot_time_us_ = checkpoint.snapshot_time_us();
  told_.set_transactions(checkpoint.changelog().transactions());
  Enter(Phase::kHealing, fmt::format("the feed is healed after {}", broken.reason()));
  return absl::OkStatus();
}

// Which of what the table holds was told cannot be known, so all of it is told again, behind the
// gap: nothing that is still there is lost.
CaptureBatch ChangelogSource::Heal() {
  const v1::Checkpoint before = *std::exchange(healing_, std::nullopt);
  const v1::BreakRecord& broken = before.broken();
  ++generation_;
  assembler_.emplace(generation_, has_old_rows_, settings_->before_images);
  CaptureBatch batch;
  batch.made = true;
  batch.checkpoint = CheckpointNow(v1::SNAPSHOT_PHASE_WHOLE);
  v1::GapRecord& gap = batch.gap.emplace();
  gap.set_from(before.position());
  gap.set_to(batch.checkpoint->position());
  gap.set_reason(broken.reason());
  gap.set_policy(broken.policy());
  gap.set_time_us(absl::ToUnixMicros(absl::Now()));
  gap.set_detail(fmt::format(
      "{}. Everything that {} holds now is told again in generation {}; what it lost is missing",
      broken.message(), settings_->TableText(), generation_));
  NoteHandedOver();
  pull_due_ = absl::InfinitePast();
  Enter(Phase::kIdle, "healed");
  return batch;
}

}  // namespace tidemark::capture::changelog
