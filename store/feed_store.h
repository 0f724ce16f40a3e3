// One feed in the store: its log, its rows, its schemas and its checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/encoded_transaction.h"
#include "proto/position.h"
#include "store/change_index.h"
#include "store/gap.h"
#include "store/log_reader.h"
#include "store/rows_reader.h"
#include "store/schema_transition.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// A committed large transaction whose parts were given to SpoolParts before.
struct SpooledCommit {
  uint64_t handle = 0;
  Position position;
  v1::CommitRecord record;
};

// A run of a large transaction that has not committed; `bytes` are valid until the next one.
struct SpooledRun {
  uint64_t first_sequence = 0;
  uint32_t part = 0;
  std::string_view bytes;
};

class SpoolReader {
 public:
  virtual ~SpoolReader() = default;
  // In order; false at the end.
  virtual absl::StatusOr<bool> Next(SpooledRun* run) = 0;
};

// What becomes visible in one atomic step. Transactions and spooled commits are each in rising
// order of position, and all lie behind the head.
struct AppendBatch {
  std::vector<v1::TableSchema> schemas;
  std::vector<EncodedTransaction> transactions;
  std::vector<SpooledCommit> spooled;
  // Set once per life of the feed: the rows given to AddSnapshotRows are whole, as of this
  // boundary.
  std::optional<Position> snapshot_whole;
  std::optional<v1::Checkpoint> checkpoint;
  // The current rows of these tables cannot be trusted any more: they go, and are not kept from the
  // transactions of this append on.
  std::vector<v1::LostTable> lost;
  // Rows of these tables (schema, table) are kept again, from the transactions of this append on:
  // they truncate the table and hold all its rows. May take as long as a fold of the whole tail.
  std::vector<std::pair<std::string, std::string>> restored;
  // Each replaces what was remembered of its table.
  std::vector<v1::TableState> table_states;
  // The next generation begins here: the gap leads from the head to the checkpoint, and there are
  // no transactions. Fsynced.
  std::optional<v1::GapRecord> gap;
};

struct RetentionBounds {
  absl::Duration age = absl::Hours(24 * 7);
  uint64_t bytes = uint64_t{10} << 30;
};

// Thread rule: one thread (capture) calls the writing members; the rest are safe from any thread.
// Positions only rise. Any member that touches the disk may fail with STORE_FULL, STORE_IO or
// STORE_DAMAGED; a failed write leaves the feed as it was.
class FeedStore {
 public:
  virtual ~FeedStore() = default;

  // Writing (capture's thread).

  // Written to the log, so that it survives kill -9; not yet synced. `checkpoint` is in the same
  // atomic step. UNAVAILABLE with FOLD_BEHIND when the unfolded tail is full: the same batch may be
  // given again, after Append has waited a little itself.
  virtual absl::Status Append(const AppendBatch& batch) = 0;
  // Parts of a large transaction, under a prefix that no reader sees until a SpooledCommit names
  // the handle.
  virtual absl::Status SpoolParts(uint64_t handle, const std::vector<v1::TableSchema>& schemas,
                                  const std::vector<EncodedRun>& runs) = 0;
  virtual absl::Status AbortSpool(uint64_t handle) = 0;
  // What SpoolParts wrote, read back: all of it, or one run. InvalidArgument for an unknown handle,
  // NotFound for an unknown run.
  virtual absl::StatusOr<std::unique_ptr<SpoolReader>> NewSpoolReader(uint64_t handle) const = 0;
  virtual absl::StatusOr<std::string> ReadSpooled(uint64_t handle, uint64_t first_sequence,
                                                  uint32_t part) const = 0;
  // Room on the disk for an index over such runs, for as long as it lives.
  virtual absl::StatusOr<std::unique_ptr<IndexOverflow>> NewIndexOverflow() = 0;
  // Everything appended is fsynced when it returns.
  virtual absl::Status Sync() = 0;
  // Removes what an unfinished snapshot left (rows and schemas), and all spooled parts without a
  // commit.
  virtual absl::Status BeginSnapshot() = 0;
  // OP_READ changes, in any order; invisible until AppendBatch::snapshot_whole.
  virtual absl::Status AddSnapshotRows(const std::vector<v1::TableSchema>& schemas,
                                       const std::vector<EncodedRun>& runs) = 0;
  // True where the rows of this schema are to be kept (it has a key, and the configuration wants
  // them). Decided by the caller once, before the first write.
  virtual void SetRowsPolicy(std::function<bool(const v1::TableSchema&)> keeps_rows) = 0;

  // Looking.

  // Its generation is that of when the store was opened; see generation().
  virtual const v1::FeedRecord& record() const = 0;
  virtual uint32_t generation() const = 0;
  // First boundary of a generation that began behind a gap, last one of a generation that is
  // closed.
  virtual std::optional<Position> BeginOfGeneration(uint32_t generation) const = 0;
  virtual std::optional<Position> EndOfGeneration(uint32_t generation) const = 0;
  // Gaps with their `to` behind `after`, at or before `upto`, rising. From memory; cheap where the
  // two are of one generation.
  virtual std::vector<Gap> GapsBetween(const Position& after, const Position& upto) const = 0;
  // Of the feed's whole life, rising; of trimmed stretches too.
  virtual std::vector<Gap> Gaps() const = 0;
  virtual v1::Checkpoint checkpoint() const = 0;
  // What capture remembers of its tables.
  virtual std::vector<v1::TableState> table_states() const = 0;
  // True from the moment at which snapshot_whole was appended.
  virtual bool snapshot_whole() const = 0;
  // Boundary up to which transactions are visible to readers: the newest appended transaction or
  // checkpoint position.
  virtual Position head() const = 0;
  // Boundary up to which everything is fsynced.
  virtual Position synced() const = 0;
  // Oldest boundary from which the log reaches on: the consistent point of the snapshot, or the
  // last trimmed transaction.
  virtual Position floor() const = 0;
  // Boundary of the rows.
  virtual Position folded() const = 0;
  // Commit time of the last trimmed transaction, 0 when none was.
  virtual int64_t floor_commit_time_us() const = 0;
  // Log bytes by estimate: from a boundary to the head, and in all.
  virtual uint64_t BytesBehind(const Position& boundary) const = 0;
  virtual uint64_t log_bytes() const = 0;
  // Log bytes that are not folded into the rows yet. From memory.
  virtual uint64_t unfolded_bytes() const = 0;
  // Transactions in the log. In a store that was made with format 1, what was written then is not
  // counted.
  virtual uint64_t log_transactions() const = 0;

  // NotFound for an id that was never given.
  virtual absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const = 0;
  // Newest schema of each table that the feed has or had, by name.
  virtual std::vector<v1::TableSchema> CurrentSchemas() const = 0;
  // Changes of schema behind `after`, at or before `upto`, in order of (position, sequence). The
  // first schema of a table is none. From memory.
  virtual std::vector<SchemaTransition> SchemaTransitions(const Position& after,
                                                          const Position& upto) const = 0;
  // Whether rows of the table are kept.
  virtual bool KeepsRows(const v1::TableSchema& schema) const = 0;
  // Tables that were lost (AppendBatch::lost) and not restored, by name. A table is among them
  // before its rows go.
  virtual std::vector<v1::LostTable> LostTables() const = 0;
  // Newest schema of one table; nullopt when the feed never had it.
  virtual std::optional<v1::TableSchema> CurrentSchema(std::string_view schema_name,
                                                       std::string_view table_name) const = 0;

  // Transactions strictly behind `after`, as visible now; Next may be called again later and then
  // sees what came since.
  virtual absl::StatusOr<std::unique_ptr<LogReader>> NewLogReader(const Position& after) const = 0;
  // The current rows at one commit boundary (RowsReader::boundary), from a consistent view.
  virtual absl::StatusOr<std::unique_ptr<RowsReader>> NewRowsReader() const = 0;
  // The same of one table, from an identity key (identity_key.h) on, rising; empty: all of it.
  virtual absl::StatusOr<std::unique_ptr<RowsReader>> NewTableRowsReader(
      const v1::TableSchema& table, std::string_view from_key) const = 0;
  // The row of a table (identity_key.h) after everything appended, as row_value.h; nullopt when
  // there is none, or none are kept. Capture's thread.
  virtual absl::StatusOr<std::optional<std::string>> FindRow(const v1::TableSchema& table,
                                                             std::string_view key) = 0;

  // Commit record of the newest transaction at or before a boundary, where the log still holds one.
  virtual absl::StatusOr<std::optional<std::pair<Position, v1::CommitRecord>>> RecordAtOrBefore(
      const Position& boundary) const = 0;

  // Upkeep.

  // Trims the log, whole transactions, never beyond the fold or `keep_from` (what a connected
  // bootstrap still needs).
  virtual absl::Status Trim(const RetentionBounds& bounds, absl::Time now,
                            std::optional<Position> keep_from) = 0;
  // Folds what is synced into the rows; true when there was something. Background threads call it;
  // so may tests.
  virtual absl::StatusOr<bool> FoldOnce() = 0;
  // Everything appended is synced and in the rows when it returns. Capture's thread.
  virtual absl::Status FoldToHead() = 0;
  // Not OK: the fold is stuck, with the cause. Capture stops when the unfolded tail reaches its
  // bound.
  virtual absl::Status fold_status() const = 0;

  // Dropping. Capture's thread.

  // Notes durably that the feed is dropped: opening the store removes it, unless CancelDrop came
  // first. `left` may stay at the source behind a crash; a feed of that name and engine that is
  // made later takes it for its own.
  virtual absl::Status BeginDrop(const std::optional<v1::PostgresCheckpoint>& left) = 0;
  virtual absl::Status CancelDrop() = 0;
  // Removes all of the feed from the disk. Readers that are open read on; those that come later
  // find nothing (CURSOR_EXPIRED), and nothing may be written any more.
  virtual absl::Status Remove() = 0;
};

}  // namespace tidemark::store
