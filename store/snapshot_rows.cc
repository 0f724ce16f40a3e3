#include "store/snapshot_rows.h"

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

absl::Status SnapshotRows::Flush() { return absl::OkStatus(); }

absl::Status SnapshotRows::Clear() {
  fold_.reset();
  return absl::OkStatus();
}

}  // namespace tidemark::store
