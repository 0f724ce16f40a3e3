// Reads the initial rows under the snapshot that the slot exported, table by table.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/row_encoder.h"
#include "capture/source.h"
#include "capture/transaction_builder.h"

namespace tidemark::capture::postgres {

struct SnapshotTable {
  SourceTable table;
  Relation relation;
  std::string row_filter;  // of the publication
  // Its rows go to the current rows; otherwise into the log, as one made transaction.
  bool rows_kept = true;
  uint64_t rows_done = 0;
  bool finished = false;
  // Once it is finished, of a partitioned table: OIDs of the partitions that were read, rising.
  std::vector<uint32_t> parts;
};

// Begin, then ReadSome until done(). Rows of tables that keep current rows come as SnapshotRows,
// the others as LargePart of one handle; the transaction that those belong to is committed by
// FinishMade. Thread rule: one thread at a time.
class SnapshotReader {
 public:
  // Imports the snapshot in a session of its own, holds every table against changes of its
  // definition, and only then reads how they look. ABORTED when one of them cannot be held:
  // everything must be done again. Whoever has it locked has ended when the next snapshot is there.
  static absl::StatusOr<std::unique_ptr<SnapshotReader>> Begin(
      const Target& target, const std::string& snapshot, std::vector<SourceTable> tables,
      absl::Duration silence_timeout, Connection* catalog, Interruption* interruption,
      absl::Time deadline);

  // Before the first ReadSome. ABORTED when a table was rewritten, or got or lost a partition,
  // since the snapshot was taken: it may read as empty, or with rows that the snapshot has not.
  absl::Status CheckNotRewritten(Connection* catalog, absl::Time deadline);

  // Which tables keep current rows, decided before the first ReadSome.
  std::vector<SnapshotTable>& tables() { return tables_; }
  const std::vector<SnapshotTable>& tables() const { return tables_; }

  // Appends about `bytes_max` of events, or what came until the deadline. SOURCE_SILENT when not a
  // byte of the table came for the silence timeout; the time between two calls does not count.
  absl::Status ReadSome(absl::Time deadline, size_t bytes_max, uint64_t made_handle,
                        std::vector<SourceEvent>* events);
  bool done() const { return current_ == tables_.size(); }

  // After done(): the rest of the made transaction. False when no row went into it.
  bool FinishMade(uint64_t made_handle, const Position& position, v1::CommitRecord record,
                  std::vector<SourceEvent>* events);

 private:
  SnapshotReader(std::unique_ptr<Connection> session, std::vector<SourceTable> tables,
                 const Target& target, absl::Duration silence_timeout);

  absl::Status HoldTables(Connection* catalog, absl::Time deadline);
  absl::Status DescribeTables(Connection* catalog, absl::Time deadline);
  absl::Status ReadUntil(absl::Time deadline, size_t bytes_max, uint64_t made_handle,
                         std::vector<SourceEvent>* events);
  absl::Status StartTable(std::vector<SourceEvent>* events);
  absl::Status Silent() const;
  absl::Status EndTable();
  absl::Status AddLine(std::string_view line);
  size_t TakeRuns(uint64_t made_handle, std::vector<SourceEvent>* events);

  std::unique_ptr<Connection> session_;
  const std::string target_text_;
  const absl::Duration silence_timeout_;
  absl::Time heard_;
  absl::Time read_ended_;
  std::vector<SnapshotTable> tables_;
  size_t current_ = 0;
  bool copying_ = false;
  RowEncoder encoder_;
  TransactionBuilder kept_;
  TransactionBuilder made_;
};

}  // namespace tidemark::capture::postgres
