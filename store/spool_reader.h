// Reads back the parts of a large transaction that has not committed. Used by the writer's thread
// alone; must not outlive the store.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rocksdb/iterator.h"
#include "store/database.h"
#include "store/feed_store.h"
#include "store/key_format.h"

namespace tidemark::store {

class StoredSpoolReader final : public SpoolReader {
 public:
  StoredSpoolReader(const Database& database, FeedId feed, uint64_t spool_id);
  absl::StatusOr<bool> Next(SpooledRun* run) override;

 private:
  const Database& database_;
  const std::string end_key_;
  const rocksdb::Slice end_;
  std::unique_ptr<rocksdb::Iterator> at_;
  bool at_first_ = true;
};

}  // namespace tidemark::store
