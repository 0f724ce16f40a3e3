#include "capture/postgres/snapshot_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/partition_tree.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_catalog.h"
#include "capture/postgres/table_lock.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// The files behind the tables and their partitions. A rewrite (or a truncate) gives a new one.
std::string FilesQuery(const std::vector<SnapshotTable>& tables, int server_version) {
  std::vector<uint32_t> oids;
  for (const SnapshotTable& table : tables) oids.push_back(table.table.oid);
  const std::string list = fmt::format("{}", fmt::join(oids, ","));
  return fmt::format(
      "{} SELECT c.oid, c.relfilenode FROM pg_class c WHERE c.oid IN ({}) OR c.oid IN (SELECT part "
      "FROM parts) ORDER BY c.oid",
      WithParts(server_version, fmt::format("r.oid IN ({})", list)), list);
}

std::string CopySql(const SnapshotTable& table) {
  std::string columns;
  for (const v1::Column& column : table.relation.schema.columns()) {
    columns += (columns.empty() ? "" : ", ") + QuoteIdentifier(column.name());
  }
  return fmt::format("COPY (SELECT {} FROM {}{}) TO STDOUT", columns, table.table.FromSql(),
                     table.row_filter.empty() ? "" : " WHERE " + table.row_filter);
}

}  // namespace

SnapshotReader::SnapshotReader(std::unique_ptr<Connection> session, std::vector<SourceTable> tables,
                               const Target& target, absl::Duration silence_timeout)
    : session_(std::move(session)),
      target_text_(target.Text()),
      silence_timeout_(silence_timeout),
      heard_(absl::Now()),
      read_ended_(heard_) {
  for (SourceTable& table : tables) tables_.push_back({.table = std::move(table)});
  kept_.Begin();
  made_.Begin();
}

absl::StatusOr<std::unique_ptr<SnapshotReader>> SnapshotReader::Begin(
    const Target& target, const std::string& snapshot, std::vector<SourceTable> tables,
    absl::Duration silence_timeout, Connection* catalog, Interruption* interruption,
    absl::Time deadline) {
  absl::StatusOr<std::unique_ptr<Connection>> session =
      Connection::Open(target, Connection::Kind::kSql, interruption, deadline);
  if (!session.ok()) return session.status();
  absl::StatusOr<ResultRows> imported = (*session)->Query(
      BeginWaitingSql(kLockWaitLong, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") +
          fmt::format("SET TRANSACTION SNAPSHOT {}", QuoteLiteral(snapshot)),
      "importing the slot's snapshot", deadline);
  if (!imported.ok()) return imported.status();
  std::unique_ptr<SnapshotReader> reader(
      new SnapshotReader(*std::move(session), std::move(tables), target, silence_timeout));
  if (absl::Status status = reader->HoldTables(catalog, deadline); !status.ok()) return status;
  if (absl::Status status = reader->DescribeTables(catalog, deadline); !status.ok()) return status;
  return reader;
}

absl::Status SnapshotReader::HoldTables(Connection* catalog, absl::Time deadline) {
  for (const SnapshotTable& table : tables_) {
    absl::StatusOr<ResultRows> held = session_->Query(
        fmt::format("LOCK TABLE {} IN ACCESS SHARE MODE", table.table.FromSql()),
        fmt::format("holding table {} for the snapshot", table.table.Text()), deadline);
    if (held.ok()) continue;
    if (!IsLockTimeout(held.status())) return held.status();
    absl::StatusOr<std::string> who =
        WhoLocks(catalog, std::span(&table.table.oid, 1), LockUse::kRead, deadline);
    return who.ok() ? absl::AbortedError(*who) : who.status();
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::CheckNotRewritten(Connection* catalog, absl::Time deadline) {
  const std::string query = FilesQuery(tables_, catalog->server_version());
  absl::StatusOr<ResultRows> then = session_->Query(query, "reading the tables' files", deadline);
  if (!then.ok()) return then.status();
  absl::StatusOr<ResultRows> now = catalog->Query(query, "reading the tables' files", deadline);
  if (!now.ok()) return now.status();
  if (then->rows == now->rows) return absl::OkStatus();
  return absl::AbortedError("a table was rewritten, or got partitions, while the snapshot began");
}

absl::Status SnapshotReader::DescribeTables(Connection* catalog, absl::Time deadline) {
  TypeCatalog types;
  for (SnapshotTable& table : tables_) {
    absl::StatusOr<RelationDescription> description = DescribeTable(catalog, table.table, deadline);
    if (!description.ok()) return description.status();
    absl::StatusOr<Relation> relation = ReadRelation(catalog, *description, {}, &types, deadline);
    if (!relation.ok()) return relation.status();
    table.relation = *std::move(relation);
    absl::StatusOr<std::string> filter = ReadRowFilter(session_.get(), table.table, deadline);
    if (!filter.ok()) return filter.status();
    table.row_filter = *std::move(filter);
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::StartTable(std::vector<SourceEvent>* events) {
  SnapshotTable& table = tables_[current_];
  events->push_back(SchemaSeen{table.relation.schema});
  copying_ = true;
  // The server answers no sooner than it has some rows to send.
  absl::Status started =
      session_->StartCopy(CopySql(table), fmt::format("reading table {}", table.table.Text()),
                          absl::Now() + silence_timeout_);
  heard_ = absl::Now();
  return ReasonOf(started) == reason::kSourceSilent ? Silent() : started;
}

// In a COPY, the server can neither be asked for a sign of life nor give one but rows.
absl::Status SnapshotReader::Silent() const {
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceSilent,
      fmt::format("reading table {}, {}: nothing came for {:.0f} s (silence_timeout); the snapshot "
                  "is tried again. Where the server takes that long to find a row (a row filter, a "
                  "table of dead rows), raise silence_timeout",
                  tables_[current_].table.Text(), target_text_,
                  absl::ToDoubleSeconds(silence_timeout_)));
}

absl::Status SnapshotReader::EndTable() {
  copying_ = false;
  SnapshotTable& table = tables_[current_];
  table.finished = true;
  ++current_;
  if (table.table.partitioned) {
    absl::StatusOr<std::vector<uint32_t>> parts =
        ReadHeldParts(session_.get(), table.table.oid, absl::Now() + kCatalogTimeout);
    if (!parts.ok()) return parts.status();
    table.parts = *std::move(parts);
  }
  if (!done()) return absl::OkStatus();
  return session_->Query("COMMIT", "ending the snapshot", absl::Now() + kCatalogTimeout).status();
}

absl::Status SnapshotReader::AddLine(std::string_view line) {
  SnapshotTable& table = tables_[current_];
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  ++table.rows_done;
  return encoder_.AddCopyLine(table.relation.shape, line, table.rows_kept ? &kept_ : &made_);
}

size_t SnapshotReader::TakeRuns(uint64_t made_handle, std::vector<SourceEvent>* events) {
  size_t bytes = 0;
  std::vector<EncodedRun> kept = kept_.TakeFullRuns();
  std::vector<EncodedRun> made = made_.TakeFullRuns();
  for (const EncodedRun& run : kept) bytes += run.bytes.size();
  for (const EncodedRun& run : made) bytes += run.bytes.size();
  if (!kept.empty()) events->push_back(SnapshotRows{std::move(kept)});
  if (!made.empty()) events->push_back(LargePart{made_handle, std::move(made)});
  return bytes;
}

absl::Status SnapshotReader::ReadSome(absl::Time deadline, size_t bytes_max, uint64_t made_handle,
                                      std::vector<SourceEvent>* events) {
  heard_ += absl::Now() - read_ended_;
  absl::Status status = ReadUntil(deadline, bytes_max, made_handle, events);
  read_ended_ = absl::Now();
  return status;
}

absl::Status SnapshotReader::ReadUntil(absl::Time deadline, size_t bytes_max, uint64_t made_handle,
                                       std::vector<SourceEvent>* events) {
  size_t bytes = 0;
  while (!done() && bytes < bytes_max) {
    if (!copying_) {
      if (absl::Status status = StartTable(events); !status.ok()) return status;
    }
    std::string_view line;
    absl::StatusOr<Connection::Copy> copy = session_->NextCopy(&line);
    if (!copy.ok()) return copy.status();
    if (*copy == Connection::Copy::kData) {
      if (absl::Status status = AddLine(line); !status.ok()) return status;
      bytes += TakeRuns(made_handle, events);
    } else if (*copy == Connection::Copy::kEnd) {
      if (absl::Status status = EndTable(); !status.ok()) return status;
    } else {
      const absl::Time silent = heard_ + silence_timeout_;
      absl::StatusOr<Connection::Wake> wake = session_->Wait(std::min(deadline, silent));
      if (!wake.ok()) return wake.status();
      if (*wake == Connection::Wake::kReadable) {
        heard_ = absl::Now();
      } else if (*wake == Connection::Wake::kDeadline && silent <= deadline) {
        return Silent();
      } else {
        return absl::OkStatus();
      }
    }
  }
  if (!done()) return absl::OkStatus();
  // What is left of the kept rows, so that nothing has to be taken later.
  EncodedTransaction rest = kept_.Finish(Position(), v1::CommitRecord());
  kept_.Begin();
  if (!rest.runs.empty()) events->push_back(SnapshotRows{std::move(rest.runs)});
  return absl::OkStatus();
}

bool SnapshotReader::FinishMade(uint64_t made_handle, const Position& position,
                                v1::CommitRecord record, std::vector<SourceEvent>* events) {
  if (made_.changes() == 0) return false;
  EncodedTransaction made = made_.Finish(position, std::move(record));
  if (!made.runs.empty()) events->push_back(LargePart{made_handle, std::move(made.runs)});
  events->push_back(LargeCommitted{made_handle, position, std::move(made.record)});
  return true;
}

}  // namespace tidemark::capture::postgres
