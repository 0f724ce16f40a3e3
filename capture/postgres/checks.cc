#include "capture/postgres/checks.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/login_remedy.h"
#include "capture/postgres/privileges.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/target.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr absl::Duration kCheckTimeout = absl::Seconds(15);

// One run of the checks: what it looks at, and what it found so far.
class Checks {
 public:
  Checks(const v1::FeedConfig& config, std::span<const TablePattern> patterns,
         Interruption* interruption)
      : patterns_(patterns),
        slot_(SlotName(config)),
        publication_(PublicationName(config)),
        target_(TargetOf(config)),
        interruption_(*interruption) {}

  std::vector<Finding> Run() {
    if (Connect()) {
      Login(Connection::Kind::kReplication);
      CheckSettings();
      CheckTables();
      CheckSlot();
      CheckOtherSlots();
    }
    if (findings_.empty()) {
      findings_.push_back(
          {Finding::Severity::kOk, "", fmt::format("{}: ready", target_.Text()), ""});
    }
    findings_.insert(findings_.end(), notes_.begin(), notes_.end());
    return std::move(findings_);
  }

 private:
  void Add(Finding::Severity severity, std::string_view reason, std::string message,
           std::string remedy) {
    findings_.push_back({severity, std::string(reason), std::move(message), std::move(remedy)});
  }
  void AddError(std::string_view reason, std::string message, std::string remedy) {
    Add(Finding::Severity::kError, reason, std::move(message), std::move(remedy));
  }
  void AddStatus(const absl::Status& status, std::string remedy = "") {
    AddError(ReasonOf(status), std::string(status.message()), std::move(remedy));
  }
  // Nothing, with a finding, when the server does not let the role in.
  std::unique_ptr<Connection> Login(Connection::Kind kind) {
    absl::StatusOr<std::unique_ptr<Connection>> session =
        Connection::Open(target_, kind, &interruption_, absl::Now() + kCheckTimeout);
    if (session.ok()) return *std::move(session);
    AddStatus(session.status(), LoginRemedy(std::string(session.status().message()), target_));
    return nullptr;
  }
  // Nothing, with a finding, when the question failed.
  std::optional<ResultRows> Ask(const std::string& sql, std::string_view doing) {
    absl::StatusOr<ResultRows> rows = sql_->Query(sql, doing, absl::Now() + kCheckTimeout);
    if (rows.ok()) return *std::move(rows);
    AddStatus(rows.status());
    return std::nullopt;
  }

  bool Connect();
  void CheckSettings();
  void CheckIdleTimeout();
  void CheckRoom(std::string_view setting, const std::string& count_sql);
  void CheckTables();
  void CheckExist(const std::vector<SourceTable>& tables,
                  const std::vector<UnloggedRelation>& unlogged);
  void CheckPrivileges(const std::vector<SourceTable>& tables);
  void CheckPartitions(const std::vector<SourceTable>& tables);
  void CheckPublication(const std::vector<SourceTable>& tables,
                        const std::optional<Publication>& found);
  void CheckMayPublish(const std::vector<SourceTable>& tables);
  void CheckSlot();
  void CheckOtherSlots();

  std::span<const TablePattern> patterns_;
  const std::string slot_;
  const std::string publication_;
  const Target target_;
  Interruption& interruption_;
  std::unique_ptr<Connection> sql_;
  bool standby_ = false;
  std::vector<Finding> findings_;
  // What is no fault, behind the findings.
  std::vector<Finding> notes_;
};

bool Checks::Connect() {
  sql_ = Login(Connection::Kind::kSql);
  if (sql_ == nullptr) return false;
  if (sql_->server_version() >= kServerVersionMin) return true;
  AddStatus(CheckServer({.version = sql_->server_version()}));
  return false;
}

void Checks::CheckSettings() {
  std::optional<ResultRows> rows =
      Ask("SELECT current_setting('wal_level'), pg_is_in_recovery(), "
          "current_setting('hot_standby_feedback')",
          "reading the settings");
  if (!rows) return;
  standby_ = rows->True(0, 1);
  absl::Status server = CheckServer(
      {.version = sql_->server_version(), .wal_level = "logical", .in_recovery = standby_});
  if (!server.ok()) return AddStatus(server);
  if (standby_ && rows->Text(0, 2) != "on") {
    Add(Finding::Severity::kWarning, reason::kSourceSetting,
        "the server is a standby, and hot_standby_feedback is off: the primary may remove rows of "
        "the catalog that the slot needs, which is lost then",
        "ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf(); -- on the standby, "
        "which is to have a physical slot of the primary (primary_slot_name)");
  }
  if (rows->Text(0, 0) != "logical") {
    AddError(reason::kSourceSetting, fmt::format("wal_level is {}", rows->Text(0, 0)),
             "ALTER SYSTEM SET wal_level = logical; -- then restart the server");
  }
  CheckIdleTimeout();
  CheckRoom("max_replication_slots",
            fmt::format("SELECT count(*) FROM pg_replication_slots WHERE slot_name <> {}",
                        QuoteLiteral(slot_)));
  CheckRoom("max_wal_senders",
            // The kinds of other roles' sessions are not shown to everybody.
            fmt::format("SELECT count(*) FROM pg_stat_replication WHERE application_name <> {}",
                        QuoteLiteral(target_.application_name)));
}

// Since 18. Off unless somebody set it.
void Checks::CheckIdleTimeout() {
  std::optional<ResultRows> rows =
      Ask("SELECT current_setting('idle_replication_slot_timeout', true), (SELECT setting::bigint "
          "FROM pg_settings WHERE name = 'idle_replication_slot_timeout')",
          "reading the settings");
  if (!rows || rows->IsNull(0, 1) || rows->Number(0, 1) == 0) return;
  Add(Finding::Severity::kWarning, reason::kSourceSetting,
      fmt::format(
          "idle_replication_slot_timeout is {}: the slot is lost once the feed does not read "
          "it for so long, in an outage or while it is paused",
          rows->Text(0, 0)),
      "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf(); -- or above "
      "your longest outage");
}

void Checks::CheckRoom(std::string_view setting, const std::string& count_sql) {
  std::optional<ResultRows> rows =
      Ask(fmt::format("SELECT ({}), current_setting('{}')", count_sql, setting),
          "counting what is used");
  if (!rows || rows->Number(0, 0) < rows->Number(0, 1)) return;
  AddError(reason::kSlotsExhausted,
           fmt::format("all {} of {} are in use", rows->Number(0, 1), setting),
           fmt::format("ALTER SYSTEM SET {} = {}; -- then restart the server", setting,
                       rows->Number(0, 1) + 10));
}

void Checks::CheckTables() {
  const absl::Time deadline = absl::Now() + kCheckTimeout;
  absl::StatusOr<std::vector<SourceTable>> tables =
      ReadMatchingTables(sql_.get(), patterns_, deadline);
  if (!tables.ok()) return AddStatus(tables.status());
  absl::StatusOr<std::optional<Publication>> publication =
      ReadPublication(sql_.get(), publication_, deadline);
  if (!publication.ok()) return AddStatus(publication.status());
  const std::vector<SourceTable> present = WithPublished(*tables, *publication, patterns_);
  absl::StatusOr<std::vector<UnloggedRelation>> unlogged =
      ReadUnlogged(sql_.get(), patterns_, deadline);
  if (!unlogged.ok()) return AddStatus(unlogged.status());
  CheckExist(present, *unlogged);
  CheckPrivileges(present);
  CheckPartitions(present);
  if (!tables->empty()) CheckPublication(*tables, *publication);
}

void Checks::CheckExist(const std::vector<SourceTable>& tables,
                        const std::vector<UnloggedRelation>& unlogged) {
  const absl::Status exist = CheckTablesExist(patterns_, tables, unlogged);
  if (exist.ok()) {
    if (unlogged.empty()) return;
    return notes_.push_back(
        {Finding::Severity::kOk, "",
         fmt::format("not captured, since their changes are in no log: {}", UnloggedText(unlogged)),
         ""});
  }
  const UnloggedRelation* named = FindNamed(patterns_, unlogged);
  AddStatus(exist, ReasonOf(exist) == reason::kSourceSetting && named != nullptr
                       ? UnloggedRemedy(*named)
                       : "-- create the table, or change the tables of the feed's configuration");
}

void Checks::CheckPrivileges(const std::vector<SourceTable>& tables) {
  absl::StatusOr<std::vector<MissingPrivilege>> missing =
      ReadMissingPrivileges(sql_.get(), tables, absl::Now() + kCheckTimeout);
  if (!missing.ok()) return AddStatus(missing.status());
  for (MissingPrivilege& one : *missing) {
    AddError(reason::kSourcePrivilege, std::move(one.message), std::move(one.remedy));
  }
}

void Checks::CheckPartitions(const std::vector<SourceTable>& tables) {
  std::set<uint32_t> seen;
  for (const SourceTable& table : tables) {
    const absl::Status logged = CheckLogged(table);
    if (logged.ok() || !seen.insert(table.oid).second) continue;
    AddStatus(logged, UnloggedPartsRemedy(table.unlogged_parts));
  }
}

void Checks::CheckPublication(const std::vector<SourceTable>& tables,
                              const std::optional<Publication>& found) {
  for (const SourceTable& table : tables) {
    if (table.HasIdentity()) continue;
    Add(found ? Finding::Severity::kWarning : Finding::Severity::kError, reason::kSourceSetting,
        fmt::format("table {} has no primary key and no replica identity: once it is published, "
                    "PostgreSQL refuses its updates and deletes",
                    table.Text()),
        fmt::format("ALTER TABLE {} REPLICA IDENTITY FULL; -- or add a primary key",
                    QuoteTable(table.schema, table.table)));
  }
  if (!found) return CheckMayPublish(tables);
  absl::Status covers = CheckCovers(*found, tables);
  if (covers.ok()) return;
  std::string missing;
  for (const SourceTable& table : tables) {
    bool held = false;
    for (const SourceTable& published : found->tables) held |= published.oid == table.oid;
    if (!held) missing += (missing.empty() ? "" : ", ") + table.InPublicationSql();
  }
  const std::string name = QuoteIdentifier(publication_);
  AddStatus(covers,
            ReasonOf(covers) == reason::kPublicationMissing
                ? fmt::format("ALTER PUBLICATION {} ADD TABLE {};", name, missing)
                : fmt::format("ALTER PUBLICATION {} SET (publish = 'insert, update, delete, "
                              "truncate', publish_via_partition_root = true);",
                              name));
}

// Without a publication the role makes one: it needs the database's CREATE and every table.
void Checks::CheckMayPublish(const std::vector<SourceTable>& tables) {
  if (standby_) {
    return AddError(
        reason::kPublicationMissing,
        fmt::format("there is no publication {}, and none can be made on a standby", publication_),
        CreatePublicationSql(publication_, tables) + "; -- on the primary");
  }
  std::string oids;
  for (const SourceTable& table : tables) {
    oids += (oids.empty() ? "" : ",") + std::to_string(table.oid);
  }
  std::optional<ResultRows> rows =
      Ask(fmt::format("SELECT has_database_privilege(current_database(), 'CREATE'), NOT EXISTS "
                      "(SELECT 1 FROM pg_class WHERE oid IN ({}) AND NOT pg_has_role(relowner, "
                      "'USAGE'))",
                      oids),
          "looking at privileges");
  if (!rows || (rows->True(0, 0) && rows->True(0, 1))) return;
  const bool owns = rows->True(0, 1);
  AddError(reason::kPublicationMissing,
           fmt::format("there is no publication {}, and role {} may not make it: it {}",
                       publication_, target_.user,
                       owns ? "may not create in the database" : "owns not all of the tables"),
           owns ? fmt::format("GRANT CREATE ON DATABASE {} TO {};",
                              QuoteIdentifier(target_.database), QuoteIdentifier(target_.user))
                : CreatePublicationSql(publication_, tables) + "; -- as the tables' owner");
}

void Checks::CheckSlot() {
  absl::StatusOr<std::optional<SlotFacts>> slot =
      ReadSlot(sql_.get(), slot_, absl::Now() + kCheckTimeout);
  if (!slot.ok()) return AddStatus(slot.status());
  if (!*slot) return;
  if (absl::Status kind = CheckSlotKind(**slot, target_.database); !kind.ok()) {
    return AddStatus(kind,
                     fmt::format("SELECT pg_drop_replication_slot({}); -- if nobody needs it; else "
                                 "name another slot in the feed's configuration",
                                 QuoteLiteral(slot_)));
  }
  if ((*slot)->wal_status == "lost") {
    AddError(reason::kSlotLost,
             fmt::format("slot {} is lost: the server gave it up{}", slot_,
                         (*slot)->invalidation.empty() ? "" : " (" + (*slot)->invalidation + ")"),
             SlotLostRemedy(**slot, standby_));
  }
  if (absl::Status free = CheckSlotFree(**slot); !free.ok()) {
    Add(Finding::Severity::kWarning, reason::kSlotActive, std::string(free.message()), "");
  }
}

void Checks::CheckOtherSlots() {
  // What a forgotten slot keeps fills the server's disk, and then this feed stops as well.
  std::optional<ResultRows> rows = Ask(
      fmt::format("SELECT slot_name, pg_wal_lsn_diff(e.at, restart_lsn)::bigint / 1048576 FROM "
                  "pg_replication_slots, (SELECT CASE WHEN pg_is_in_recovery() THEN "
                  "pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) e(at) WHERE NOT active "
                  "AND slot_name <> {} AND restart_lsn IS NOT NULL AND pg_wal_lsn_diff(e.at, "
                  "restart_lsn) > 1073741824 ORDER BY slot_name",
                  QuoteLiteral(slot_)),
      "looking at other slots");
  if (!rows) return;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    Add(Finding::Severity::kWarning, reason::kSourceSetting,
        fmt::format("nobody reads slot {}, and it keeps {} MiB of the server's log",
                    rows->Text(row, 0), rows->Number(row, 1)),
        fmt::format("SELECT pg_drop_replication_slot({}); -- if nobody needs it",
                    QuoteLiteral(rows->Text(row, 0))));
  }
}

}  // namespace

std::vector<Finding> CheckPostgres(const v1::FeedConfig& config,
                                   std::span<const TablePattern> tables,
                                   Interruption* interruption) {
  Interruption never;
  return Checks(config, tables, interruption == nullptr ? &never : interruption).Run();
}

}  // namespace tidemark::capture::postgres
