// RowsReader over the rows family. Rules of use: rows_reader.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/iterator.h"
#include "store/database.h"
#include "store/key_format.h"
#include "store/rows_reader.h"

namespace tidemark::store {

class StoredRowsReader final : public RowsReader {
 public:
  // FEED_NOT_READY (UNAVAILABLE) while the initial snapshot is not whole; STORE_DAMAGED.
  static absl::StatusOr<std::unique_ptr<StoredRowsReader>> Open(const Database& database,
                                                                FeedId feed);

  const Position& boundary() const override { return marker_.folded; }
  absl::StatusOr<bool> Next(StoredRow* row) override;

  // Of the row that Next returned last: its key in the rows family.
  std::string_view key() const { return {at_->key().data(), at_->key().size()}; }

 private:
  StoredRowsReader(const Database& database, FeedId feed);
  absl::Status ReadMarker();

  const Database& database_;
  const FeedId feed_;
  const std::string end_key_;
  const rocksdb::Slice end_;
  // One iterator is one view: the marker and the rows that it gives belong together.
  std::unique_ptr<rocksdb::Iterator> at_;
  RowsMarker marker_;
};

}  // namespace tidemark::store
