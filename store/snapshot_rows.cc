#include "store/snapshot_rows.h"

#include <optional>
#include <string>

#include "store/rows_writer.h"

namespace tidemark::store {

absl::Status SnapshotRows::Add(const std::vector<EncodedRun>& runs) {
  if (!fold_) fold_.emplace(feed_, lookups_);
  v1::CommitRecord record;
  for (const EncodedRun& run : runs) {
    StoredRun stored;
    stored.record = &record;
    stored.first_sequence = run.first_sequence;
    stored.part = run.part;
    stored.bytes = run.bytes;
    if (absl::Status status = fold_->Add(stored); !status.ok()) return status;
  }
  if (fold_->bytes() < kSnapshotRowsBytesMax) return absl::OkStatus();
  return Flush();
}

absl::Status SnapshotRows::Flush() {
  if (!fold_) return absl::OkStatus();
  const auto rows = fold_->Take();
  if (!rows.ok()) return rows.status();
  return RowsWriter(&database_, feed_).Publish(*rows, std::nullopt);
}

absl::Status SnapshotRows::Clear() {
  fold_.reset();
  const std::string begin = FeedPrefix(feed_);
  const std::string end = FeedPrefix(feed_ + 1);
  rocksdb::WriteBatch batch;
  batch.DeleteRange(database_.rows(), begin, end);
  if (absl::Status status = database_.Write(&batch, /*sync=*/true); !status.ok()) return status;
  return database_.DropFiles(database_.rows(), begin, end);
}

}  // namespace tidemark::store
