#include "capture/postgres/table_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "capture/postgres/key_condition.h"
#include "capture/postgres/partition_tree.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_catalog.h"
#include "capture/postgres/table_lock.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr uint64_t kPageHeaderBytes = 24;
constexpr uint64_t kSegmentHeaderBytes = 40;

// The lock comes first: the snapshot is taken by the first query, and nothing rewrites the table
// between that and its rows. What a standby says is asked for in the order that StandbyFence needs.
constexpr char kSnapshotSql[] =
    "LOCK TABLE {} IN ACCESS SHARE MODE;"
    " SELECT pg_current_snapshot(), CASE WHEN NOT pg_is_in_recovery() THEN"
    " pg_current_wal_insert_lsn() END, current_setting('wal_block_size'), (SELECT setting FROM"
    " pg_settings WHERE name = 'wal_segment_size'), to_regclass({})::oid,"
    " (pg_stat_get_wal_receiver()).pid IS NOT NULL, pg_last_wal_receive_lsn(),"
    " pg_last_wal_replay_lsn()";

// A row for each transaction that holds the lock of a writer on the table or a part of it, and so
// may have written; or one without an id. Those that wrote nothing anywhere have none. A standby
// does not know who writes, so there it is the oldest one that runs.
constexpr char kWritersSql[] =
    "{1} SELECT CASE WHEN pg_is_in_recovery() THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE "
    "pg_snapshot_xmax(pg_current_snapshot()) END, x.transactionid FROM (SELECT) one LEFT JOIN "
    "pg_locks x ON x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted AND "
    "EXISTS (SELECT FROM pg_locks l WHERE l.virtualtransaction = x.virtualtransaction AND "
    "l.locktype = 'relation' AND l.granted AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND "
    "(l.relation = {0} OR l.relation IN (SELECT part FROM parts)))";

std::string ColumnList(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + QuoteIdentifier(name);
  return list;
}

std::string SelectSql(const ChunkOrder& order, const Relation& relation,
                      const std::string& row_filter) {
  std::string where;
  const auto add = [&where](const std::string& condition) {
    where += (where.empty() ? " WHERE " : " AND ") + condition;
  };
  if (!row_filter.empty()) add("(" + row_filter + ")");
  if (!order.after_key.empty()) add(BehindKey(order.after_key, relation));
  if (!order.keys.empty()) add(WithKeys(order.keys, relation));
  const std::string by = ColumnList(KeyColumnNames(relation));
  const bool whole = order.keys.empty() || order.whole_rows;
  const std::string columns = whole ? ColumnList(relation.shape.column_names) : by;
  const size_t limit = order.keys.empty() ? order.rows_max : order.keys.size();
  return fmt::format("COPY (SELECT {} FROM {}{} ORDER BY {} LIMIT {}) TO STDOUT", columns,
                     order.table.FromSql(), where, by, limit);
}

// Comes before the snapshot: whoever ended by now is seen by it.
absl::StatusOr<uint64_t> OldestWriter(Connection* sql, const SourceTable& table,
                                      absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format(kWritersSql, table.oid,
                  WithParts(sql->server_version(), fmt::format("r.oid = {}", table.oid))),
      fmt::format("looking who writes to table {}", table.Text()), deadline);
  if (!rows.ok()) return rows.status();
  const uint64_t xmax = rows->Number(0, 0);
  uint64_t oldest = xmax;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    if (rows->IsNull(row, 1)) continue;
    oldest = std::min(oldest, WholeXid(static_cast<uint32_t>(rows->Number(row, 1)), xmax));
  }
  return oldest;
}

absl::Status Begin(Connection* sql, const SourceTable& table, absl::Time deadline,
                   TableChunk* chunk) {
  const std::string name = QuoteTable(table.schema, table.table);
  absl::StatusOr<ResultRows> rows =
      sql->Query(BeginWaitingSql(kLockWait, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") +
                     fmt::format(kSnapshotSql, table.FromSql(), QuoteLiteral(name)),
                 fmt::format("taking a snapshot of table {}", table.Text()), deadline);
  if (!rows.ok()) return rows.status();
  absl::StatusOr<XidSnapshot> snapshot = XidSnapshot::Parse(rows->Text(0, 0));
  if (!snapshot.ok()) return snapshot.status();
  chunk->in_recovery = rows->IsNull(0, 1);
  absl::StatusOr<Lsn> at = ParseLsn(rows->Text(0, chunk->in_recovery ? 7 : 1));
  if (!at.ok()) return at.status();
  chunk->snapshot = *std::move(snapshot);
  chunk->fence = chunk->in_recovery
                     ? StandbyFence(rows->True(0, 5), ParseLsn(rows->Text(0, 6)).value_or(0), *at)
                     : RecordEndBefore(*at, rows->Number(0, 2), rows->Number(0, 3));
  if (rows->Number(0, 4) == table.oid) return absl::OkStatus();
  return absl::AbortedError(fmt::format("table {} was replaced by another one", table.Text()));
}

// A backend that committed has to be scheduled again before others see its commit, which a busy
// machine does later than it has the stream told of it.
absl::Status BeginBehindStreamed(Connection* sql, const ChunkOrder& order, absl::Time deadline,
                                 TableChunk* chunk) {
  for (int taken = 1;; ++taken) {
    absl::Status begun = Begin(sql, order.table, deadline, chunk);
    if (!begun.ok() || chunk->in_recovery || taken == kChunkSnapshotsMax) return begun;
    const bool sees_all = std::all_of(order.streamed.begin(), order.streamed.end(),
                                      [&](uint32_t xid) { return chunk->snapshot.Sees(xid); });
    if (sees_all) return begun;
    absl::Status ended = sql->Query("ROLLBACK", "taking a later snapshot", deadline).status();
    if (!ended.ok()) return ended;
  }
}

absl::Status Describe(Connection* sql, const SourceTable& table, absl::Time deadline,
                      TableChunk* chunk) {
  absl::StatusOr<RelationDescription> description = DescribeTable(sql, table, deadline);
  if (!description.ok()) return description.status();
  TypeCatalog types;
  absl::StatusOr<Relation> relation = ReadRelation(sql, *description, {}, &types, deadline);
  if (!relation.ok()) return relation.status();
  chunk->relation = *std::move(relation);
  chunk->relation.description = *std::move(description);
  return absl::OkStatus();
}

// Keys of an earlier chunk, when the table had perhaps another one.
absl::Status CheckKeys(const ChunkOrder& order, const Relation& relation) {
  const size_t columns = relation.shape.key_columns.size();
  const auto fits = [&](const std::vector<std::string>& key) { return key.size() == columns; };
  if ((order.after_key.empty() || fits(order.after_key)) &&
      std::all_of(order.keys.begin(), order.keys.end(), fits)) {
    return absl::OkStatus();
  }
  return absl::AbortedError(
      fmt::format("table {} has another key than before", order.table.Text()));
}

// What comes behind the bounds is read, and dropped: the session stays usable.
absl::Status ReadLines(Connection* sql, const ChunkOrder& order, absl::Time deadline,
                       TableChunk* chunk) {
  const std::string doing = fmt::format("reading table {}", order.table.Text());
  absl::StatusOr<std::string> filter = ReadRowFilter(sql, order.table, deadline);
  if (!filter.ok()) return filter.status();
  absl::Status started =
      sql->StartCopy(SelectSql(order, chunk->relation, *filter), doing, deadline);
  if (!started.ok()) return started;
  // A key that is asked for and not among the lines would count as gone.
  const bool only_keys = !order.keys.empty() && !order.whole_rows;
  const size_t bytes_max = only_keys ? std::numeric_limits<size_t>::max() : kChunkBytesMax;
  size_t bytes = 0;
  size_t rows = 0;
  while (true) {
    std::string_view line;
    absl::StatusOr<Connection::Copy> copy = sql->NextCopy(&line);
    if (!copy.ok()) return copy.status();
    if (*copy == Connection::Copy::kEnd) break;
    if (*copy == Connection::Copy::kNothingYet) {
      absl::StatusOr<Connection::Wake> wake = sql->Wait(deadline);
      if (!wake.ok()) return wake.status();
      if (*wake == Connection::Wake::kReadable) continue;
      return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceSilent,
                             fmt::format("no row came in time while {}; it is tried again", doing));
    }
    ++rows;
    if (bytes > bytes_max) continue;
    if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    bytes += line.size();
    chunk->lines.emplace_back(line);
  }
  chunk->cut = rows > chunk->lines.size();
  chunk->at_end = !chunk->cut && rows < order.rows_max;
  return absl::OkStatus();
}

// Of a chunk that has begun.
absl::Status ReadUnderLock(Connection* sql, const ChunkOrder& order, absl::Time deadline,
                           TableChunk* chunk) {
  if (!order.keyless_too && chunk->relation.shape.key_columns.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("table {} has no key that its rows can be told apart by", order.table.Text()));
  }
  absl::Status status;
  if (order.rows_max > 0) status = CheckKeys(order, chunk->relation);
  if (status.ok() && order.rows_max > 0) status = ReadLines(sql, order, deadline, chunk);
  if (status.ok() && order.rows_max > 0 && order.table.partitioned) {
    // None can go while it is held, and one that came is among them.
    absl::StatusOr<std::vector<uint32_t>> parts = ReadHeldParts(sql, order.table.oid, deadline);
    if (!parts.ok()) return parts.status();
    chunk->parts = *std::move(parts);
  }
  if (status.ok()) status = sql->Query("COMMIT", "ending a snapshot", deadline).status();
  return status;
}

}  // namespace

Lsn StandbyFence(bool receiving, Lsn received, Lsn replayed) {
  // All that there is of the log was replayed, so nothing was under way.
  return receiving && received <= replayed ? replayed : replayed + 1;
}

Lsn RecordEndBefore(Lsn insert_position, uint64_t block_bytes, uint64_t segment_bytes) {
  if (block_bytes == 0 || segment_bytes == 0) return insert_position;
  const bool first_page = insert_position % segment_bytes < block_bytes;
  const uint64_t header = first_page ? kSegmentHeaderBytes : kPageHeaderBytes;
  return insert_position % block_bytes == header ? insert_position - header : insert_position;
}

std::vector<std::string> KeyColumnNames(const Relation& relation) {
  std::vector<std::string> names;
  for (const uint32_t column : relation.shape.key_columns) {
    names.push_back(relation.shape.column_names[column]);
  }
  return names;
}

absl::StatusOr<TableChunk> BeginChunk(Connection* sql, const ChunkOrder& order,
                                      absl::Time deadline) {
  TableChunk chunk;
  if (order.writers_before > 0) {
    absl::StatusOr<uint64_t> oldest = OldestWriter(sql, order.table, deadline);
    if (!oldest.ok()) return oldest.status();
    if (*oldest < order.writers_before) {
      chunk.waits_for = fmt::format(
          "waiting for transaction {} to end, which may have written to the table before it was "
          "published",
          *oldest);
      return chunk;
    }
  }
  absl::Status status = BeginBehindStreamed(sql, order, deadline, &chunk);
  if (status.ok()) status = Describe(sql, order.table, deadline, &chunk);
  if (!status.ok()) return GiveUpChunk(sql, order, status, deadline);
  return chunk;
}

absl::StatusOr<TableChunk> GiveUpChunk(Connection* sql, const ChunkOrder& order,
                                       const absl::Status& status, absl::Time deadline) {
  if (!IsLockTimeout(status)) return status;
  absl::Status ended = sql->Query("ROLLBACK", "giving a lock up", deadline).status();
  if (!ended.ok()) return ended;
  absl::StatusOr<std::string> who =
      WhoLocks(sql, std::span(&order.table.oid, 1), LockUse::kRead, deadline);
  if (!who.ok()) return who.status();
  TableChunk waiting;
  waiting.waits_for = *std::move(who);
  return waiting;
}

absl::StatusOr<TableChunk> ReadChunk(Connection* sql, const ChunkOrder& order,
                                     absl::Time deadline) {
  absl::StatusOr<TableChunk> chunk = BeginChunk(sql, order, deadline);
  if (!chunk.ok() || !chunk->waits_for.empty()) return chunk;
  const absl::Status read = ReadUnderLock(sql, order, deadline, &*chunk);
  if (!read.ok()) return GiveUpChunk(sql, order, read, deadline);
  return chunk;
}

}  // namespace tidemark::capture::postgres
