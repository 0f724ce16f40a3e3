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
  // Of one table (RowsTablePrefix), from an identity key on.
  static absl::StatusOr<std::unique_ptr<StoredRowsReader>> Open(const Database& database,
                                                                FeedId feed,
                                                                std::string_view table_prefix,
                                                                std::string_view from_key);

  const Position& boundary() const override { return marker_.folded; }
  absl::StatusOr<bool> Next(StoredRow* row) override;

  // Of the row that Next returned last: its key in the rows family.
  std::string_view key() const { return {at_->key().data(), at_->key().size()}; }

 private:
  StoredRowsReader(const Database& database, FeedId feed, std::string end_key);
  absl::Status ReadMarker();

  const Database& database_;
  const FeedId feed_;
  const std::string end_key_;
  const rocksdb::Slice end_;
  // One iterator is one view: the marker and the rows that it gives belong together.
  std::unique_ptr<rocksdb::Iterator> at_;
  RowsMarker marker_;
  // Of a reader of one table.
  size_t prefix_bytes_ = 0;
  // It stands on the first row already.
  bool at_first_ = false;
};

}  // namespace tidemark::store
