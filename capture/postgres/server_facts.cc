#include "capture/postgres/server_facts.h"

#include <fmt/format.h>

#include "capture/postgres/fork.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {

namespace {

// System identifier, timeline, position, database.
absl::StatusOr<ResultRows> Identify(Connection* replication, absl::Time deadline) {
  absl::StatusOr<ResultRows> identity =
      replication->Query("IDENTIFY_SYSTEM", "identifying the server", deadline);
  if (!identity.ok() || (!identity->empty() && identity->rows[0].size() >= 4)) return identity;
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
                         "the server did not say who it is (IDENTIFY_SYSTEM gave no row)");
}

}  // namespace

absl::StatusOr<ServerFacts> ReadServerFacts(Connection* replication, Connection* sql,
                                            absl::Time deadline) {
  ServerFacts facts;
  facts.version = sql->server_version();
  // An older server might not even understand the questions.
  if (facts.version < kServerVersionMin) return facts;
  absl::StatusOr<ResultRows> identity = Identify(replication, deadline);
  if (!identity.ok()) return identity.status();
  absl::StatusOr<ResultRows> settings = sql->Query(
      "SELECT current_setting('wal_level'), pg_is_in_recovery(),"
      " (pg_stat_get_wal_receiver()).pid IS NOT NULL,"
      " CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
      "      ELSE pg_current_wal_flush_lsn() END,"
      " (SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'),"
      " version(), (SELECT string_agg(proname, ' ') FROM pg_catalog.pg_proc"
      "  WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (" +
          ForkFunctionsSql() + "))",
      "reading the server's settings", deadline);
  if (!settings.ok()) return settings.status();
  facts.system_identifier = identity->Text(0, 0);
  facts.timeline = static_cast<uint32_t>(identity->Number(0, 1));
  facts.database = identity->Text(0, 3);
  facts.wal_level = settings->Text(0, 0);
  facts.in_recovery = settings->True(0, 1);
  facts.receiving = settings->True(0, 2);
  if (absl::StatusOr<Lsn> lsn = ParseLsn(settings->Text(0, 3)); lsn.ok()) facts.flush_lsn = *lsn;
  facts.wal_sender_timeout = absl::Milliseconds(settings->Number(0, 4));
  facts.fork = ForkOf(settings->Text(0, 5), settings->Text(0, 6));
  return facts;
}

absl::StatusOr<uint32_t> ReadTimeline(Connection* replication, absl::Time deadline) {
  absl::StatusOr<ResultRows> identity = Identify(replication, deadline);
  if (!identity.ok()) return identity.status();
  return static_cast<uint32_t>(identity->Number(0, 1));
}

absl::StatusOr<TimelineHistory> ReadTimelineHistory(Connection* replication, uint32_t timeline,
                                                    absl::Time deadline) {
  // The first one has none.
  if (timeline <= 1) return TimelineHistory();
  absl::StatusOr<ResultRows> rows =
      replication->Query(fmt::format("TIMELINE_HISTORY {}", timeline),
                         fmt::format("reading the history of timeline {}", timeline), deadline);
  constexpr char kNoSuchFile[] = "58P01";
  if (!rows.ok() && DetailsOf(rows.status())["sqlstate"] == kNoSuchFile) return TimelineHistory();
  if (!rows.ok()) return rows.status();
  return ParseTimelineHistory(rows->empty() ? "" : rows->Text(0, 1));
}

absl::StatusOr<Lsn> ReadFlushed(Connection* sql, absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
      " ELSE pg_current_wal_flush_lsn() END",
      "reading how far the log is flushed", deadline);
  if (!rows.ok()) return rows.status();
  return ParseLsn(rows->Text(0, 0));
}

absl::Status CheckServer(const ServerFacts& facts) {
  if (facts.version < kServerVersionMin) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceVersion,
                           fmt::format("the server is PostgreSQL {}.{}; 13 or newer is needed",
                                       facts.version / 10000, facts.version % 10000));
  }
  if (facts.in_recovery && facts.version < kStandbyVersionMin) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSourceVersion,
        fmt::format("the server is a standby of PostgreSQL {}; a standby can be captured from "
                    "version {} on: connect to the primary",
                    facts.version / 10000, kStandbyVersionMin / 10000));
  }
  if (facts.wal_level != "logical") {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSourceSetting,
        fmt::format("the server's wal_level is {}; run ALTER SYSTEM SET wal_level = logical and "
                    "restart the server",
                    facts.wal_level));
  }
  return absl::OkStatus();
}

}  // namespace tidemark::capture::postgres
