// Walks everything that the log of a feed holds, spooled runs in their place, and goes on behind
// what it cannot read: for inspection, where log_reader.h stops at the first damage. Owned by one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "rocksdb/iterator.h"
#include "store/database.h"
#include "store/key_format.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// One entry of the log or, for a large transaction, of the spool.
struct ScannedEntry {
  Position position;
  // Of the first change in `run`.
  uint64_t sequence = 0;
  uint32_t part = 0;
  // It begins a transaction; `record` is that transaction's until the next such entry.
  bool first = false;
  bool spooled = false;
  v1::CommitRecord record;
  // A serialized tidemark.v1.Run, empty where the entry holds a record alone. Valid until the next
  // call of Next.
  std::string_view run;
  // What is wrong with the entry itself; empty: nothing. Then `run` is empty too.
  std::string defect;

  // How messages name it: `position/sequence`, with `+part` for a piece of a value.
  std::string Name() const;
};

class LogScan {
 public:
  // Transactions behind `after`.
  LogScan(const Database& database, FeedId feed, const Position& after);

  // False at the end. An error is the disk's, or a block that RocksDB finds damaged: what lies
  // behind it cannot be reached.
  absl::StatusOr<bool> Next(ScannedEntry* entry);

 private:
  bool Fill(std::string_view key, std::string_view value, ScannedEntry* entry);
  bool FillSpooled(ScannedEntry* entry);

  const Database& database_;
  const FeedId feed_;
  const std::string end_key_;
  const rocksdb::Slice end_;
  std::unique_ptr<rocksdb::Iterator> at_;
  bool moved_ = true;
  // Set while the runs of a spooled transaction are read.
  std::string spool_end_key_;
  rocksdb::Slice spool_end_;
  std::unique_ptr<rocksdb::Iterator> spool_;
  bool in_transaction_ = false;
  Position position_;
};

}  // namespace tidemark::store
