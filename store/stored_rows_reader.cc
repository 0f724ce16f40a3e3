#include "store/stored_rows_reader.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "proto/reason.h"
#include "store/row_value.h"

namespace tidemark::store {
namespace {

constexpr size_t kReadAheadBytes = size_t{1} << 20;

}  // namespace

StoredRowsReader::StoredRowsReader(const Database& database, FeedId feed, std::string end_key)
    : database_(database), feed_(feed), end_key_(std::move(end_key)), end_(end_key_) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end_;
  options.readahead_size = kReadAheadBytes;
  // A scan reads each block once: it must not push out what lookups need.
  options.fill_cache = false;
  at_.reset(database.rocks()->NewIterator(options, database.rows()));
}

absl::StatusOr<std::unique_ptr<StoredRowsReader>> StoredRowsReader::Open(const Database& database,
                                                                         FeedId feed) {
  std::unique_ptr<StoredRowsReader> reader(
      new StoredRowsReader(database, feed, FeedPrefix(feed + 1)));
  if (absl::Status s = reader->ReadMarker(); !s.ok()) return s;
  return reader;
}

absl::StatusOr<std::unique_ptr<StoredRowsReader>> StoredRowsReader::Open(
    const Database& database, FeedId feed, std::string_view table_prefix,
    std::string_view from_key) {
  std::unique_ptr<StoredRowsReader> reader(
      new StoredRowsReader(database, feed, PrefixEnd(table_prefix)));
  if (absl::Status s = reader->ReadMarker(); !s.ok()) return s;
  reader->prefix_bytes_ = table_prefix.size();
  reader->at_->Seek(std::string(table_prefix) + std::string(from_key));
  reader->at_first_ = true;
  return reader;
}

absl::Status StoredRowsReader::ReadMarker() {
  const std::string key = RowsMarkerKey(feed_);
  at_->Seek(key);
  if (!at_->status().ok()) return database_.Error(at_->status(), "read the current rows");
  if (!at_->Valid() || at_->key() != rocksdb::Slice(key)) {
    return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kFeedNotReady,
                           "the feed's initial snapshot is not whole yet; try again later");
  }
  const auto marker = RowsMarker::Decode({at_->value().data(), at_->value().size()});
  if (!marker) return database_.Damaged("the marker of the current rows is unreadable");
  marker_ = *marker;
  return absl::OkStatus();
}

absl::StatusOr<bool> StoredRowsReader::Next(StoredRow* row) {
  // The marker stands before every row.
  if (!std::exchange(at_first_, false)) at_->Next();
  if (!at_->Valid()) {
    if (!at_->status().ok()) return database_.Error(at_->status(), "read the current rows");
    return false;
  }
  const auto decoded = DecodeRow({at_->value().data(), at_->value().size()});
  if (!decoded) {
    return database_.Damaged(fmt::format("the row under key {} is shorter than its header",
                                         std::string(absl::BytesToHexString(absl::string_view(
                                             at_->key().data(), at_->key().size())))));
  }
  *row = *decoded;
  if (prefix_bytes_ > 0) row->key = key().substr(prefix_bytes_);
  // No transaction has written it since the snapshot.
  if (row->position == Position()) row->position = marker_.snapshot;
  return true;
}

}  // namespace tidemark::store
