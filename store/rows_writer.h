// Writes folded rows into the rows family. Owned by one thread; one writer of a feed's rows at a
// time.
//
// Durability: what Publish ingests as files is fsynced when it returns; what it writes as a batch
// (few rows) is in the WAL, in order with everything else that is written, and durable with the
// next sync. Either way rows and marker are one atomic step, so a crash leaves an older marker with
// the rows that belong to it, and folding again from there gives the same rows, provided that the
// log still reaches back that far: sync before files of the log are dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "store/database.h"
#include "store/fold.h"
#include "store/key_format.h"

namespace tidemark::store {

// Up to this many rows and bytes go as a batch: below, a file costs more than it saves.
inline constexpr size_t kBatchRowsMax = 1024;
inline constexpr size_t kBatchBytesMax = size_t{1} << 20;

class RowsWriter {
 public:
  RowsWriter(Database* database, FeedId feed) : database_(*database), feed_(feed) {}
  // What was staged and not published is gone.
  ~RowsWriter();
  RowsWriter(const RowsWriter&) = delete;
  RowsWriter& operator=(const RowsWriter&) = delete;

  // Puts rows aside, behind those staged before, so that a transaction larger than memory is
  // published as a whole. No reader sees them.
  absl::Status Stage(const FoldedRows& rows);

  // What was staged, then `rows`, and the marker (none for rows of a snapshot) become visible in
  // one atomic step. After an error nothing of it is visible, and the writer is of no more use.
  absl::Status Publish(const FoldedRows& rows, const std::optional<RowsMarker>& marker);

  // The value under a key of the rows family with what is staged; nullopt when there is none. For
  // FoldLookups::stored_row.
  absl::StatusOr<std::optional<std::string>> Find(std::string_view key);

  // Removes files that a crash left behind, of all feeds. REQUIRES: no writer is alive.
  static absl::Status RemoveLeftovers(Database* database);

 private:
  // Rows put aside in a file that is not part of the database yet.
  struct Staged {
    std::string rows_file;
    // Keys that are removed: a reader of rows_file cannot tell them from keys that are not in it.
    std::string deleted_file;
    std::vector<std::string> truncated;
    std::unique_ptr<rocksdb::SstFileReader> rows;
    std::unique_ptr<rocksdb::SstFileReader> deleted;
  };

  absl::StatusOr<std::string> NewFile();
  absl::Status WriteRowsFile(const FoldedRows& rows, const std::optional<RowsMarker>& marker,
                             const std::string& file);
  absl::Status WriteDeletedFile(const FoldedRows& rows, Staged* staged);
  absl::Status WriteBatch(const FoldedRows& rows, const std::optional<RowsMarker>& marker);
  absl::StatusOr<std::optional<std::string>> FindIn(
      std::string_view key, const std::string& file,
      std::unique_ptr<rocksdb::SstFileReader>* reader);
  void RemoveFile(const std::string& file);
  absl::Status Error(const rocksdb::Status& status) const {
    return database_.Error(status, "write current rows");
  }

  Database& database_;
  const FeedId feed_;
  uint64_t next_file_ = 0;
  std::vector<Staged> staged_;
};

}  // namespace tidemark::store
