#include "capture/postgres/slot.h"

#include <fmt/format.h>

#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr std::string_view kPlugin = "pgoutput";
constexpr std::string_view kIdleTimeout = "idle_timeout";

absl::Status Refuse(std::string_view reason, const std::string& message,
                    const ErrorDetails& details) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message, details);
}

absl::Status CheckTimeline(const v1::PostgresCheckpoint& checkpoint, Lsn checkpoint_lsn,
                           const ServerFacts& server) {
  const TimelineJudgement judged =
      JudgeTimeline(checkpoint.timeline(), checkpoint_lsn, server.timeline, server.history);
  if (judged.verdict == TimelineVerdict::kSame || judged.verdict == TimelineVerdict::kGoesOn) {
    return absl::OkStatus();
  }
  ErrorDetails details = {{"expected", std::to_string(checkpoint.timeline())},
                          {"found", std::to_string(server.timeline)},
                          {"checkpoint", LsnText(checkpoint_lsn)}};
  const std::string captured = fmt::format("the feed was captured from timeline {} up to {}",
                                           checkpoint.timeline(), LsnText(checkpoint_lsn));
  if (judged.verdict == TimelineVerdict::kUnknown) {
    return Refuse(
        reason::kSourceTimeline,
        fmt::format("the server is on timeline {}, and its history does not tell where it left "
                    "timeline {}; {}: commits may have been undone",
                    server.timeline, checkpoint.timeline(), captured),
        details);
  }
  details["left_at"] = LsnText(judged.left_at);
  return Refuse(reason::kSourceTimeline,
                fmt::format("the server is on timeline {}, which left timeline {} at {}, and {}: a "
                            "standby was promoted or a backup restored, and what was captured "
                            "behind {} was undone",
                            server.timeline, checkpoint.timeline(), LsnText(judged.left_at),
                            captured, LsnText(judged.left_at)),
                details);
}

// After a restart a standby answers before it has replayed again what it has of the log; only then
// does it ask the primary for more.
absl::Status CheckReplayed(const v1::PostgresCheckpoint& checkpoint, Lsn checkpoint_lsn,
                           const ServerFacts& server) {
  if (!server.in_recovery || server.receiving) return absl::OkStatus();
  if (checkpoint_lsn <= server.flush_lsn && checkpoint.timeline() <= server.timeline) {
    return absl::OkStatus();
  }
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
      fmt::format("the standby has replayed its log up to {} of timeline {}, and the feed was "
                  "captured up to {} of timeline {}; it is tried again",
                  LsnText(server.flush_lsn), server.timeline, LsnText(checkpoint_lsn),
                  checkpoint.timeline()));
}

absl::Status CheckNotRewound(Lsn checkpoint, const ServerFacts& server) {
  if (checkpoint <= server.flush_lsn) return absl::OkStatus();
  return Refuse(reason::kSourceRewound,
                fmt::format("the feed was captured up to {}, but the server's log ends at {}: it "
                            "was restored from an older state",
                            LsnText(checkpoint), LsnText(server.flush_lsn)),
                {{"checkpoint", LsnText(checkpoint)}, {"server", LsnText(server.flush_lsn)}});
}

absl::Status CheckNotAdvanced(Lsn checkpoint, const SlotFacts& slot) {
  if (*slot.confirmed_flush <= checkpoint) return absl::OkStatus();
  return Refuse(
      reason::kSlotAdvanced,
      fmt::format("slot {} stands at {}, past the feed's checkpoint {}: somebody else moved "
                  "it, and the changes between are not sent again",
                  slot.name, LsnText(*slot.confirmed_flush), LsnText(checkpoint)),
      {{"slot", slot.name},
       {"checkpoint", LsnText(checkpoint)},
       {"confirmed_flush", LsnText(*slot.confirmed_flush)}});
}

// The server's words for it differ between versions.
std::string WhyLost(const SlotFacts& slot, const ServerFacts& server) {
  if (slot.invalidation.empty() || slot.invalidation == "wal_removed") {
    return "the server removed the log behind it (see max_slot_wal_keep_size)";
  }
  if (slot.invalidation == "wal_level_insufficient") {
    return "wal_level of the primary was lowered";
  }
  if (slot.invalidation == kIdleTimeout) {
    return "nobody read it for longer than idle_replication_slot_timeout of the server: set that "
           "to "
           "0, or above your longest outage";
  }
  if (server.in_recovery &&
      (slot.invalidation == "rows_removed" || slot.invalidation == "conflict")) {
    return "it was in conflict with the replay of the primary's log on this standby, which removed "
           "rows of the catalog that it needed: set hot_standby_feedback = on there, and give the "
           "standby a physical slot of the primary (primary_slot_name)";
  }
  return fmt::format("the server invalidated it ({})", slot.invalidation);
}

std::optional<Lsn> LsnOrNothing(const ResultRows& rows, size_t column) {
  absl::StatusOr<Lsn> lsn = ParseLsn(rows.Text(0, column));
  return lsn.ok() ? std::optional<Lsn>(*lsn) : std::nullopt;
}

}  // namespace

std::string SlotQuery(const std::string& name) {
  return fmt::format(
      "SELECT s.slot_type, s.plugin, s.database, s.active_pid, s.confirmed_flush_lsn,"
      " s.restart_lsn, s.wal_status, s.safe_wal_size, pg_wal_lsn_diff(CASE WHEN"
      "  pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,"
      "  s.restart_lsn)::bigint, CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
      "  ELSE pg_current_wal_flush_lsn() END, coalesce(to_jsonb(s)->>'invalidation_reason', CASE"
      "  WHEN (to_jsonb(s)->>'conflicting')::bool THEN 'conflict' END)"
      " FROM pg_replication_slots s WHERE s.slot_name = {}",
      QuoteLiteral(name));
}

std::optional<SlotFacts> SlotFromRows(const std::string& name, const ResultRows& rows) {
  if (rows.empty()) return std::nullopt;
  SlotFacts slot;
  slot.name = name;
  slot.type = rows.Text(0, 0);
  slot.plugin = rows.Text(0, 1);
  slot.database = rows.Text(0, 2);
  slot.active_pid = static_cast<int32_t>(rows.Number(0, 3));
  slot.confirmed_flush = LsnOrNothing(rows, 4);
  slot.restart = LsnOrNothing(rows, 5);
  slot.wal_status = rows.Text(0, 6);
  // Below zero: the next checkpoint of the server gives the slot up.
  const bool over = rows.Text(0, 7).starts_with("-");
  if (!rows.IsNull(0, 7)) slot.headroom_bytes = over ? 0 : rows.Number(0, 7);
  slot.retained_bytes = rows.Number(0, 8);
  slot.server_flush = LsnOrNothing(rows, 9).value_or(0);
  slot.invalidation = rows.Text(0, 10);
  return slot;
}

absl::StatusOr<std::optional<SlotFacts>> ReadSlot(Connection* sql, const std::string& name,
                                                  absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(SlotQuery(name), "reading the slot", deadline);
  if (!rows.ok()) return rows.status();
  return SlotFromRows(name, *rows);
}

absl::Status CheckSameDatabase(const v1::PostgresCheckpoint& checkpoint,
                               const ServerFacts& server) {
  if (checkpoint.system_identifier() != server.system_identifier) {
    return Refuse(
        reason::kSourceReplaced,
        fmt::format("the server is another cluster: system identifier {}, the feed was "
                    "captured from {}",
                    server.system_identifier, checkpoint.system_identifier()),
        {{"expected", checkpoint.system_identifier()}, {"found", server.system_identifier}});
  }
  if (checkpoint.database() != server.database) {
    return Refuse(reason::kSourceReplaced,
                  fmt::format("the feed was captured from database {}, not {}",
                              checkpoint.database(), server.database),
                  {{"expected", checkpoint.database()}, {"found", server.database}});
  }
  return absl::OkStatus();
}

absl::Status CheckSlotKind(const SlotFacts& slot, const std::string& database) {
  if (slot.type == "logical" && slot.plugin == kPlugin && slot.database == database) {
    return absl::OkStatus();
  }
  const std::string found =
      slot.type == "logical"
          ? fmt::format("a logical slot of plugin {} in database {}", slot.plugin, slot.database)
          : fmt::format("a {} slot", slot.type);
  return Refuse(reason::kSlotForeign,
                fmt::format("slot {} is {}; the feed needs one of plugin {} in database {}: "
                            "configure another slot name",
                            slot.name, found, kPlugin, database),
                {{"slot", slot.name},
                 {"type", slot.type},
                 {"plugin", slot.plugin},
                 {"database", slot.database}});
}

absl::Status CheckSlotFree(const SlotFacts& slot) {
  if (slot.active_pid == 0) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSlotActive,
      fmt::format("slot {0} in use by pid {1}; it is tried again. Who that is: SELECT * FROM "
                  "pg_stat_activity WHERE pid = {1}",
                  slot.name, slot.active_pid),
      {{"slot", slot.name}, {"pid", std::to_string(slot.active_pid)}});
}

absl::Status CheckResume(const v1::PostgresCheckpoint& checkpoint, Lsn checkpoint_lsn,
                         const ServerFacts& server, const std::string& slot_name,
                         const std::optional<SlotFacts>& slot) {
  if (absl::Status status = CheckSameDatabase(checkpoint, server); !status.ok()) return status;
  if (absl::Status status = CheckReplayed(checkpoint, checkpoint_lsn, server); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckTimeline(checkpoint, checkpoint_lsn, server); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckNotRewound(checkpoint_lsn, server); !status.ok()) return status;
  if (!slot.has_value()) {
    return Refuse(reason::kSlotMissing,
                  fmt::format("slot {} is gone; the feed was captured up to {}, and what changed "
                              "since then cannot be told",
                              slot_name, LsnText(checkpoint_lsn)),
                  {{"slot", slot_name}, {"checkpoint", LsnText(checkpoint_lsn)}});
  }
  if (absl::Status status = CheckSlotKind(*slot, server.database); !status.ok()) return status;
  if (IsLost(*slot)) {
    return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kSlotLost,
                           fmt::format("slot {} is lost: {}; nothing behind {} can be read from it",
                                       slot_name, WhyLost(*slot, server), LsnText(checkpoint_lsn)),
                           {{"slot", slot_name},
                            {"checkpoint", LsnText(checkpoint_lsn)},
                            {"cause", slot->invalidation}});
  }
  if (absl::Status status = CheckNotAdvanced(checkpoint_lsn, *slot); !status.ok()) return status;
  return CheckSlotFree(*slot);
}

bool IsLost(const SlotFacts& slot) {
  return slot.wal_status == "lost" || !slot.restart.has_value() ||
         !slot.confirmed_flush.has_value();
}

std::string SlotLostRemedy(const SlotFacts& slot, bool in_recovery) {
  if (slot.invalidation == kIdleTimeout) {
    return "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();";
  }
  if (slot.invalidation == "wal_level_insufficient") {
    return "ALTER SYSTEM SET wal_level = logical; -- on the primary, then restart it";
  }
  if (in_recovery && !slot.invalidation.empty() && slot.invalidation != "wal_removed") {
    return "ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); -- on the standby";
  }
  return "-- raise max_slot_wal_keep_size above what is written in your longest outage";
}

void FillSlotStatus(const SlotFacts& slot, v1::SlotStatus* status) {
  status->set_name(slot.name);
  status->set_confirmed_flush(slot.confirmed_flush ? LsnText(*slot.confirmed_flush) : "");
  status->set_restart(slot.restart ? LsnText(*slot.restart) : "");
  status->set_wal_status(slot.wal_status);
  status->set_retained_bytes(slot.retained_bytes);
  status->clear_headroom_bytes();
  if (slot.headroom_bytes) status->set_headroom_bytes(*slot.headroom_bytes);
  status->set_active_pid(slot.active_pid);
}

}  // namespace tidemark::capture::postgres
