// PostgresEngine: the findings of `tidemarkd --check`.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/postgres_engine.h"
#include "capture/poll/postgres_page_sql.h"
#include "capture/poll/postgres_table.h"
#include "capture/poll/table_poll.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/login_remedy.h"
#include "capture/postgres/server_identity.h"
#include "capture/postgres/target.h"
#include "proto/reason.h"

namespace tidemark::capture::poll {
namespace {

using postgres::Connection;

Finding ErrorFinding(const absl::Status& status, std::string remedy = "") {
  return {Finding::Severity::kError, ReasonOf(status), std::string(status.message()),
          std::move(remedy)};
}

bool InUtc(const std::string& zone) {
  for (std::string_view one : {"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu", "UCT", "Etc/UCT"}) {
    if (zone == one) return true;
  }
  return false;
}

// What every poll of a standby meets.
void AddStandby(const postgres::ServerIdentity& server, std::vector<Finding>* findings) {
  if (!server.in_recovery) return;
  findings->push_back(
      {Finding::Severity::kWarning, std::string(reason::kSourceSetting),
       "the server is a standby: rows come when they are replayed, and a poll that is in the way "
       "of the replay is ended by it and begun again",
       "ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); -- on the standby, or "
       "raise its max_standby_streaming_delay"});
}

// What the first poll would make of rows without a cursor.
void AddNulls(const TableSettings& table, uint64_t count, std::vector<Finding>* findings) {
  if (table.null_cursors == NullCursors::kFail) {
    if (count > 0) findings->push_back(ErrorFinding(NullCursorRefusal(table, count)));
    return;
  }
  const bool include = table.null_cursors == NullCursors::kInclude;
  // They cost nothing before there are any; those that are left out, nobody will hear of.
  if (include && count == 0) return;
  findings->push_back(
      {Finding::Severity::kWarning, std::string(reason::kCursorNull),
       fmt::format("rows of table {} whose {} is NULL are {}, as null_cursor says: {}{} now",
                   table.Text(), table.cursor, include ? "all read by each poll" : "left out",
                   count < kNullCountMax ? "" : "at least ", count),
       ""});
}

absl::Status CheckTables(Connection* sql, const PollSettings& settings,
                         std::vector<Finding>* findings) {
  const auto ask = [&](const std::string& text) {
    return sql->Query(text, "checking the tables", absl::Now() + settings.silence_timeout);
  };
  absl::StatusOr<postgres::ResultRows> zone =
      ask("SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'");
  if (!zone.ok()) return zone.status();
  for (const TableSettings& table : settings.tables) {
    if (auto begun = ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); !begun.ok()) {
      return begun.status();
    }
    absl::StatusOr<TableLook> look =
        LookAtTable(sql, table, settings, absl::Now() + settings.silence_timeout);
    if (look.ok()) {
      const bool local =
          look->table.shape.cursor_type == "timestamp" || look->table.shape.cursor_type == "date";
      findings->insert(findings->end(), look->findings.begin(), look->findings.end());
      if (local && !zone->empty() && !InUtc(zone->Text(0, 0))) {
        findings->push_back(
            {Finding::Severity::kWarning, std::string(reason::kCursorColumnUnusable),
             fmt::format("column {} of table {} says no time zone, and is taken for UTC; sessions "
                         "stamp by {} here. Stamps that are ahead of UTC are told as if they were "
                         "in the future, and read again by each poll until they are not",
                         table.cursor, table.Text(), zone->Text(0, 0)),
             "use timestamptz, or let all writers stamp in UTC"});
      }
      if (look->table.shape.cursor_nullable && RefusalOf(look->findings).ok()) {
        absl::StatusOr<postgres::ResultRows> nulls =
            ask(NullCountSql(look->table.sql, kNullCountMax));
        if (nulls.ok()) {
          AddNulls(table, nulls->Number(0, 0), findings);
        } else {
          findings->push_back(ErrorFinding(nulls.status()));
        }
      }
    } else {
      findings->push_back(ErrorFinding(look.status()));
    }
    if (auto ended = ask("ROLLBACK"); !ended.ok()) return ended.status();
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Finding> PostgresEngine::Check() const {
  postgres::Interruption never;
  absl::StatusOr<std::unique_ptr<Connection>> session =
      Connection::Open(target_, Connection::Kind::kSql, &never, absl::Now() + kConnectTimeout);
  if (!session.ok()) {
    return {ErrorFinding(session.status(),
                         postgres::LoginRemedy(std::string(session.status().message()), target_))};
  }
  absl::StatusOr<postgres::ServerIdentity> server =
      postgres::ReadServerIdentity(session->get(), Deadline());
  if (!server.ok()) return {ErrorFinding(server.status())};
  std::vector<Finding> findings;
  AddStandby(*server, &findings);
  if (absl::Status checked = CheckTables(session->get(), settings_, &findings); !checked.ok()) {
    findings.push_back(ErrorFinding(checked));
  }
  if (findings.empty()) {
    findings.push_back(
        {Finding::Severity::kOk, "", fmt::format("{}: ready to be polled", target_.Text()), ""});
  }
  return findings;
}

}  // namespace tidemark::capture::poll
