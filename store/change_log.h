// Writes transactions into the family log, and finds them again. The log's bytes are counted here:
// keys and values of the entries, and the runs that a large transaction has in the spool.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/encoded_transaction.h"
#include "rocksdb/write_batch.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/key_format.h"
#include "store/log_sample.h"
#include "store/spool.h"

namespace tidemark::store {

// All of these return the transaction's bytes.
uint64_t AddTransaction(const Database& database, FeedId feed,
                        const EncodedTransaction& transaction, rocksdb::WriteBatch* batch);
uint64_t AddSpooledCommit(const Database& database, FeedId feed, const Position& position,
                          const v1::CommitRecord& record, const SpooledParts& parts,
                          rocksdb::WriteBatch* batch);

// The newest sample at or before a boundary.
absl::StatusOr<std::optional<std::pair<Position, LogSample>>> SampleAtOrBefore(
    const Database& database, FeedId feed, const Position& boundary);

// Log bytes up to a boundary since the feed began, by the samples; an error of the disk counts as
// nothing known behind the floor.
uint64_t LogBytesThrough(const Database& database, FeedId feed, const FeedBoundaries& now,
                         const Position& boundary);

// The commit record of the newest transaction at or before a boundary.
absl::StatusOr<std::optional<std::pair<Position, v1::CommitRecord>>> FindRecordAtOrBefore(
    const Database& database, FeedId feed, const Position& boundary);

// One transaction, as a walk over the log meets it.
struct LoggedTransaction {
  Position position;
  v1::CommitRecord record;
  uint64_t bytes = 0;
};

// Walks the transactions behind a boundary without their spooled runs. Owned by one thread.
class LogWalk {
 public:
  LogWalk(const Database& database, FeedId feed, const Position& after);

  // False at the end.
  absl::StatusOr<bool> Next(LoggedTransaction* transaction);

 private:
  const Database& database_;
  const std::string end_key_;
  const rocksdb::Slice end_;
  std::unique_ptr<rocksdb::Iterator> at_;
};

}  // namespace tidemark::store
