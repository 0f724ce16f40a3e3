#include "capture/postgres/slot_creation.h"

#include <fmt/format.h>

#include "capture/postgres/privileges.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

struct Wanted {
  std::vector<SourceTable> tables;
  std::optional<Publication> publication;
};

absl::StatusOr<Wanted> CheckWanted(Connection* sql, const std::string& publication,
                                   std::span<const TablePattern> patterns, absl::Time deadline) {
  Wanted wanted;
  absl::StatusOr<std::vector<SourceTable>> tables = ReadMatchingTables(sql, patterns, deadline);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<std::optional<Publication>> found = ReadPublication(sql, publication, deadline);
  if (!found.ok()) return found.status();
  wanted.publication = *std::move(found);
  const std::vector<SourceTable> present = WithPublished(*tables, wanted.publication, patterns);
  if (absl::Status status = CheckTablesExist(patterns, present); !status.ok()) return status;
  if (absl::Status status = CheckReadable(sql, present, deadline); !status.ok()) return status;
  absl::Status status =
      wanted.publication ? CheckCovers(*wanted.publication, *tables) : CheckIdentities(*tables);
  if (!status.ok()) return status;
  wanted.tables = *std::move(tables);
  return wanted;
}

}  // namespace

absl::Status CheckPublication(Connection* sql, const std::string& publication,
                              std::span<const TablePattern> patterns, absl::Time deadline) {
  return CheckWanted(sql, publication, patterns, deadline).status();
}

absl::StatusOr<std::vector<SourceTable>> PreparePublication(Connection* sql,
                                                            const std::string& publication,
                                                            std::span<const TablePattern> patterns,
                                                            absl::Time deadline) {
  absl::StatusOr<Wanted> wanted = CheckWanted(sql, publication, patterns, deadline);
  if (!wanted.ok()) return wanted.status();
  if (!wanted->publication) {
    // The role may read only by default.
    absl::StatusOr<ResultRows> made =
        sql->Query(fmt::format("BEGIN READ WRITE; {}; COMMIT",
                               CreatePublicationSql(publication, wanted->tables)),
                   "making the publication", deadline);
    if (!made.ok()) return made.status();
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

absl::Status SendCreateSlot(Connection* replication, const std::string& slot) {
  return replication->Send(
      fmt::format("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput EXPORT_SNAPSHOT",
                  QuoteIdentifier(slot)),
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
  // A prepared transaction holds its lock without a process: pid 0.
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format("SELECT b.pid, coalesce(a.usename::text, ''), extract(epoch FROM "
                  "clock_timestamp() - a.xact_start)::bigint, (SELECT gid FROM "
                  "pg_prepared_xacts ORDER BY prepared LIMIT 1) FROM "
                  "unnest(pg_blocking_pids({})) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = "
                  "b.pid ORDER BY b.pid LIMIT 1",
                  walsender_pid),
      "looking for what the slot waits for", deadline);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return std::string();
  if (rows->Number(0, 0) == 0) {
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

}  // namespace tidemark::capture::postgres
