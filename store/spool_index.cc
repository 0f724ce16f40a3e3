#include "store/spool_index.h"

#include <string>

namespace tidemark::store {
namespace {

constexpr size_t kEntriesPerWrite = 16'384;

}  // namespace

SpoolIndex::~SpoolIndex() {
  rocksdb::WriteBatch batch;
  batch.DeleteRange(database_.spool(), SpoolPrefix(feed_, spool_id_),
                    SpoolPrefix(feed_, spool_id_ + 1));
  // What cannot be removed now is removed at the next start.
  (void)database_.Write(&batch, /*sync=*/false);
}

absl::Status SpoolIndex::Put(const std::vector<Entry>& entries) {
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < entries.size(); ++i) {
    std::string place;
    AppendBig64(&place, entries[i].second);
    batch.Put(database_.spool(), SpoolKey{feed_, spool_id_, entries[i].first, 0}.Encode(), place);
    if (i + 1 < entries.size() && batch.Count() < kEntriesPerWrite) continue;
    if (absl::Status status = database_.Write(&batch, /*sync=*/false); !status.ok()) return status;
    batch.Clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PlaceOfChange>> SpoolIndex::Get(uint64_t hash) {
  std::string place;
  const rocksdb::Status status =
      database_.rocks()->Get(rocksdb::ReadOptions(), database_.spool(),
                             SpoolKey{feed_, spool_id_, hash, 0}.Encode(), &place);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return database_.Error(status, "read the keys of a large transaction");
  if (place.size() != 8) return database_.Damaged("an indexed key in the spool is unreadable");
  return ReadBig64(place.data());
}

}  // namespace tidemark::store
