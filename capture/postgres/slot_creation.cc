#include "capture/postgres/slot_creation.h"

#include <fmt/format.h>

#include "capture/postgres/privileges.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_lock.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

struct Wanted {
  std::vector<SourceTable> tables;
  std::optional<Publication> publication;
};

absl::Status MissingOnStandby(const std::string& publication, std::span<const SourceTable> tables) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kPublicationMissing,
      fmt::format("there is no publication {}, and none can be made on a standby; run on the "
                  "primary: {}",
                  publication, CreatePublicationSql(publication, tables)),
      {{"publication", publication}});
}

absl::StatusOr<Wanted> CheckWanted(Connection* sql, const std::string& publication,
                                   std::span<const TablePattern> patterns, bool standby,
                                   absl::Time deadline) {
  Wanted wanted;
  absl::StatusOr<std::vector<SourceTable>> tables = ReadMatchingTables(sql, patterns, deadline);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<std::optional<Publication>> found = ReadPublication(sql, publication, deadline);
  if (!found.ok()) return found.status();
  wanted.publication = *std::move(found);
  const std::vector<SourceTable> present = WithPublished(*tables, wanted.publication, patterns);
  absl::StatusOr<std::vector<UnloggedRelation>> unlogged = ReadUnlogged(sql, patterns, deadline);
  if (!unlogged.ok()) return unlogged.status();
  absl::Status exist = CheckTablesExist(patterns, present, *unlogged);
  if (!exist.ok()) return exist;
  if (absl::Status status = CheckReadable(sql, present, deadline); !status.ok()) return status;
  for (const SourceTable& table : present) {
    if (absl::Status status = CheckLogged(table); !status.ok()) return status;
  }
  absl::Status status =
      wanted.publication ? CheckCovers(*wanted.publication, *tables) : CheckIdentities(*tables);
  if (!status.ok()) return status;
  if (standby && !wanted.publication) return MissingOnStandby(publication, *tables);
  wanted.tables = *std::move(tables);
  return wanted;
}

absl::Status MakePublication(Connection* sql, const std::string& publication,
                             std::span<const SourceTable> tables, absl::Time deadline) {
  constexpr char kDoing[] = "making the publication";
  absl::Status made = sql->Query(BeginWaitingSql(kLockWaitLong, "BEGIN READ WRITE") +
                                     CreatePublicationSql(publication, tables) + "; COMMIT",
                                 kDoing, deadline)
                          .status();
  if (!IsLockTimeout(made)) return made;
  made = sql->Query("ROLLBACK", kDoing, deadline).status();
  if (!made.ok()) return made;
  std::vector<uint32_t> oids;
  for (const SourceTable& table : tables) oids.push_back(table.oid);
  absl::StatusOr<std::string> who = WhoLocks(sql, oids, LockUse::kPublish, deadline);
  if (!who.ok()) return who.status();
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                         fmt::format("{}: {}; it is tried again", kDoing, *who));
}

}  // namespace

absl::Status CheckPublication(Connection* sql, const std::string& publication,
                              std::span<const TablePattern> patterns, bool standby,
                              absl::Time deadline) {
  return CheckWanted(sql, publication, patterns, standby, deadline).status();
}

absl::StatusOr<std::vector<SourceTable>> PreparePublication(Connection* sql,
                                                            const std::string& publication,
                                                            std::span<const TablePattern> patterns,
                                                            bool standby, absl::Time deadline) {
  absl::StatusOr<Wanted> wanted = CheckWanted(sql, publication, patterns, standby, deadline);
  if (!wanted.ok()) return wanted.status();
  if (!wanted->publication) {
    absl::Status made = MakePublication(sql, publication, wanted->tables, deadline);
    if (!made.ok()) return made;
    absl::StatusOr<std::optional<Publication>> found = ReadPublication(sql, publication, deadline);
    if (!found.ok()) return found.status();
    wanted->publication = *std::move(found);
  }
  if (!wanted->publication) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kPublicationMissing,
        fmt::format("publication {} vanished while the snapshot was prepared", publication));
  }
  // As the publication has them: with its lists of columns and its row filters.
  return CapturedTables(*wanted->publication, patterns);
}

absl::Status DropSlot(Connection* sql, const std::string& slot, absl::Time deadline) {
  return sql
      ->Query(fmt::format("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                          "WHERE slot_name = {}",
                          QuoteLiteral(slot)),
              fmt::format("dropping slot {}, which is made again", slot), deadline)
      .status();
}

absl::Status SendCreateSlot(Connection* replication, const std::string& slot, bool synced) {
  return replication->Send(
      fmt::format("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {}", QuoteIdentifier(slot),
                  synced ? "(SNAPSHOT 'export', FAILOVER true)" : "EXPORT_SNAPSHOT"),
      fmt::format("making slot {}", slot));
}

absl::StatusOr<std::optional<CreatedSlot>> CollectCreatedSlot(Connection* replication,
                                                              absl::Time deadline) {
  absl::StatusOr<std::optional<ResultRows>> rows = replication->Collect(deadline);
  if (!rows.ok()) return rows.status();
  if (!rows->has_value()) return std::optional<CreatedSlot>();
  const ResultRows& row = **rows;
  absl::StatusOr<Lsn> consistent = row.empty() || row.rows[0].size() < 3
                                       ? absl::InvalidArgumentError("no row")
                                       : ParseLsn(row.Text(0, 1));
  if (!consistent.ok() || row.Text(0, 2).empty()) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
        "the server made the slot, but did not say where it begins or exported no snapshot");
  }
  return std::optional<CreatedSlot>({*consistent, row.Text(0, 2)});
}

absl::StatusOr<std::string> WhatCreationWaitsFor(Connection* sql, int walsender_pid,
                                                 absl::Time deadline) {
  // A prepared transaction holds its lock without a process: pid 0. Which one, the lock says that
  // the creation waits for; others may be older, and in nobody's way.
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format(
          "SELECT b.pid, coalesce(a.usename::text, ''), extract(epoch FROM "
          "clock_timestamp() - a.xact_start)::bigint, (SELECT x.gid FROM pg_prepared_xacts x "
          "JOIN pg_locks l ON l.transactionid = x.transaction WHERE l.pid = {0} AND "
          "l.locktype = 'transactionid' AND NOT l.granted LIMIT 1) FROM "
          "unnest(pg_blocking_pids({0})) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = "
          "b.pid ORDER BY b.pid LIMIT 1",
          walsender_pid),
      "looking for what the slot waits for", deadline);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return std::string();
  if (rows->Number(0, 0) == 0) {
    // It has ended meanwhile.
    if (rows->IsNull(0, 3)) return std::string();
    return fmt::format(
        "waiting for a prepared transaction ('{}'): COMMIT PREPARED or ROLLBACK "
        "PREPARED it",
        rows->Text(0, 3));
  }
  // Since when is not shown to everybody.
  const std::string since =
      rows->IsNull(0, 2) ? "" : fmt::format(", open for {} s", rows->Text(0, 2));
  return fmt::format(
      "waiting for transaction (pid {}, user {}{}): the slot can be made once it ends",
      rows->Text(0, 0), rows->Text(0, 1), since);
}

absl::StatusOr<std::string> WhatStandbyWaitsFor(Connection* sql, absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      "SELECT pg_snapshot_xmin(s.now), pg_snapshot_xmin(s.now) < pg_snapshot_xmax(s.now) FROM "
      "(SELECT pg_current_snapshot()) s(now)",
      "looking for what the slot waits for", deadline);
  if (!rows.ok()) return rows.status();
  const std::string running =
      rows->True(0, 1)
          ? fmt::format(", and then for those to end (the oldest is {})", rows->Text(0, 0))
          : "";
  return fmt::format(
      "waiting until the primary says which transactions run there{}; it does within 15 s while "
      "something is written, else at a checkpoint, or when SELECT pg_log_standby_snapshot() is run "
      "there",
      running);
}

absl::StatusOr<std::unique_ptr<Connection>> HoldRows(const Target& target,
                                                     Interruption* interruption,
                                                     absl::Time deadline) {
  absl::StatusOr<std::unique_ptr<Connection>> holder =
      Connection::Open(target, Connection::Kind::kSql, interruption, deadline);
  if (!holder.ok()) return holder;
  absl::Status held = (*holder)
                          ->Query(
                              "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT "
                              "pg_current_snapshot()",
                              "holding the rows of the snapshot", deadline)
                          .status();
  if (!held.ok()) return held;
  return holder;
}

absl::Status ReleaseRows(std::unique_ptr<Connection> holder, absl::Time deadline) {
  return holder->Query("COMMIT", "holding the rows of the snapshot until it was there", deadline)
      .status();
}

}  // namespace tidemark::capture::postgres
