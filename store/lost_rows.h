// Tables of a feed whose current rows are not kept any more although the configuration wants them,
// since they cannot be trusted: which, since when, and why. The writer's thread changes them with
// an append; looking is safe from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "rocksdb/write_batch.h"
#include "store/database.h"
#include "store/key_format.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// Schema and table.
using TableName = std::pair<std::string, std::string>;

class LostRows {
 public:
  LostRows(Database* database, FeedId feed) : database_(*database), feed_(feed) {}

  // Reads those of the feed.
  absl::Status Open();

  // The table's rows go, and are not kept from here on. REQUIRES: nothing is folded meanwhile.
  void Stage(const v1::LostTable& table, rocksdb::WriteBatch* batch);
  // They are kept again.
  void StageRestored(const TableName& table, rocksdb::WriteBatch* batch);
  // What was staged since is written, or was not.
  void Keep();
  void Drop();

  bool Has(const v1::TableSchema& schema) const;
  std::vector<v1::LostTable> All() const;

 private:
  Database& database_;
  const FeedId feed_;
  mutable std::mutex mutex_;
  // Protected by mutex_. A table is in it before its rows are gone, so that nobody who misses them
  // takes them for kept.
  std::map<TableName, v1::LostTable> tables_;
  // Writer's thread only.
  std::vector<TableName> staged_;
  std::vector<TableName> staged_restored_;
};

}  // namespace tidemark::store
