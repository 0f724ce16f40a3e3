// Reads some rows of a table under a snapshot of their own, and what is to be known of that
// snapshot to place them in the stream. Writes nothing at the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/xid_snapshot.h"

namespace tidemark::capture::postgres {

// What is told, or compared, at once.
inline constexpr size_t kChunkRowsMax = 1000;
// What a chunk holds at most, plus the row that passes the bound in bytes: while the stream is
// behind, and a chunk waits for it longer than it takes to read.
inline constexpr size_t kChunkRowsBehindMax = 10'000;
inline constexpr size_t kChunkBytesMax = 1 << 20;
// A commit is streamed a little before others see it: for so many snapshots it may take its time.
inline constexpr int kChunkSnapshotsMax = 50;

struct ChunkOrder {
  SourceTable table;
  // Text of the key columns of the last row that was read; empty: from the beginning.
  std::vector<std::string> after_key;
  // 0: only what the table looks like.
  size_t rows_max = kChunkRowsMax;
  // Not empty: the rows with these keys; of them the key columns only, unless whole_rows.
  std::vector<std::vector<std::string>> keys;
  bool whole_rows = false;
  // The table need not have a key: no row of it is ever to be read.
  bool keyless_too = false;
  // Nothing is read while a transaction below it may have written to the table; 0: whatever runs.
  uint64_t writers_before = 0;
  // Transactions that were streamed, and that the snapshot should see: it is taken again, a few
  // times, while it does not.
  std::vector<uint32_t> streamed;
};

struct TableChunk {
  // What the table looks like under the snapshot.
  Relation relation;
  XidSnapshot snapshot;
  // Of a standby, where no snapshot tells which transactions run.
  bool in_recovery = false;
  // Every transaction that the snapshot sees ends at or before it.
  Lsn fence = 0;
  // Lines of COPY TO STDOUT, rising by key.
  std::vector<std::string> lines;
  // Of a partitioned table: OIDs of the partitions that were read, rising.
  std::vector<uint32_t> parts;
  // Nothing lies behind the lines.
  bool at_end = false;
  // The bound in bytes left rows out behind them. Never where only key columns were asked for.
  bool cut = false;
  // Not empty: what has to end first, for people; all else is empty. A transaction below
  // ChunkOrder::writers_before, or who has the table locked.
  std::string waits_for;
};

// Begins a transaction that holds the table as it is, and says how that looks under its snapshot;
// none is open where the chunk waits. SOURCE_TABLE_MISSING when the table is gone. ABORTED: it is
// another one than the order says; the catalog is to be looked at again.
absl::StatusOr<TableChunk> BeginChunk(Connection* sql, const ChunkOrder& order,
                                      absl::Time deadline);

// Ends the transaction of a chunk that failed with `status`: a chunk that waits where a lock was
// not to be had in time, else `status`.
absl::StatusOr<TableChunk> GiveUpChunk(Connection* sql, const ChunkOrder& order,
                                       const absl::Status& status, absl::Time deadline);

// BeginChunk, the rows, and the end of the transaction. FAILED_PRECONDITION without a reason: the
// table has no key that rows could be told apart by. ABORTED also when it has another key than
// those of the order are of.
absl::StatusOr<TableChunk> ReadChunk(Connection* sql, const ChunkOrder& order, absl::Time deadline);

// Names of the key columns, in key order.
std::vector<std::string> KeyColumnNames(const Relation& relation);

// On a standby, with what was read there after a snapshot was taken: whether it receives the
// primary's log; up to where it has received it; up to where it has replayed it. A transaction is
// seen shortly before the end of its commit counts as replayed: where another record may be under
// way, the fence lies behind the end of that one, wherever that is. Pure.
Lsn StandbyFence(bool receiving, Lsn received, Lsn replayed);

// The end of the record that ends where the server said that the next one is to be inserted: behind
// the header of a page, nothing was written yet (K7). Pure.
Lsn RecordEndBefore(Lsn insert_position, uint64_t block_bytes, uint64_t segment_bytes);

}  // namespace tidemark::capture::postgres
