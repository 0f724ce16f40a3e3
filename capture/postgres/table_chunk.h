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

// What a chunk holds at most, plus the row that passes the bound.
inline constexpr size_t kChunkRowsMax = 1000;
inline constexpr size_t kChunkRowsMin = 10;
// Fewer than these are never asked for because of the time that they take.
inline constexpr size_t kChunkRowsFew = 30;
// While the stream is behind, and a chunk waits for it longer than it takes to read.
inline constexpr size_t kChunkRowsBehindMax = 10'000;
inline constexpr size_t kChunkBytesMax = 1 << 20;

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
  // Nothing lies behind the lines.
  bool at_end = false;
  // The bound in bytes left rows out behind them. Never where only key columns were asked for.
  bool cut = false;
  // A transaction below ChunkOrder::writers_before that runs: all else is empty.
  uint64_t held_up_by = 0;
};

// Begins a transaction that holds the table as it is, and says how that looks under its snapshot;
// in vain where the chunk says who holds it up. SOURCE_TABLE_MISSING when the table is gone,
// ABORTED when another one took its name.
absl::StatusOr<TableChunk> BeginChunk(Connection* sql, const ChunkOrder& order,
                                      absl::Time deadline);

// BeginChunk, the rows, and the end of the transaction. FAILED_PRECONDITION without a reason: the
// table has no key that rows could be told apart by.
absl::StatusOr<TableChunk> ReadChunk(Connection* sql, const ChunkOrder& order, absl::Time deadline);

// Names of the key columns, in key order.
std::vector<std::string> KeyColumnNames(const Relation& relation);

// The end of the record that ends where the server said that the next one is to be inserted: behind
// the header of a page, nothing was written yet (K7). Pure.
Lsn RecordEndBefore(Lsn insert_position, uint64_t block_bytes, uint64_t segment_bytes);

}  // namespace tidemark::capture::postgres
