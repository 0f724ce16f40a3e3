#include "store/spool_reader.h"

#include <utility>

namespace tidemark::store {

StoredSpoolReader::StoredSpoolReader(const Database& database, FeedId feed, uint64_t spool_id)
    : database_(database), end_key_(SpoolPrefix(feed, spool_id + 1)), end_(end_key_) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end_;
  options.fill_cache = false;
  at_.reset(database.rocks()->NewIterator(options, database.spool()));
  at_->Seek(SpoolPrefix(feed, spool_id));
}

absl::StatusOr<bool> StoredSpoolReader::Next(SpooledRun* run) {
  if (!std::exchange(at_first_, false)) at_->Next();
  if (!at_->Valid()) {
    if (!at_->status().ok()) return database_.Error(at_->status(), "read the spool");
    return false;
  }
  const auto key = SpoolKey::Decode(at_->key().ToStringView());
  if (!key) return database_.Damaged("a key of the spool is unreadable");
  *run = {key->sequence, key->part, at_->value().ToStringView()};
  return true;
}

}  // namespace tidemark::store
