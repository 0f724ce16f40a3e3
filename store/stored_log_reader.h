// LogReader over the families log and spool. Rules of use: log_reader.h.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rocksdb/iterator.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/log_reader.h"

namespace tidemark::store {

// CURSOR_EXPIRED when the log does not reach back to `boundary`.
absl::Status CheckFloor(const Position& boundary, const Position& floor);

class StoredLogReader final : public LogReader {
 public:
  // Transactions behind `after`.
  StoredLogReader(const Database& database, const FeedState& state, FeedId feed,
                  const Position& after)
      : database_(database), state_(state), feed_(feed), after_(after) {}

  absl::StatusOr<bool> Next(StoredRun* run) override;
  void SkipTransaction() override { skip_ = true; }
  void Rest() override;

 private:
  absl::StatusOr<bool> Move(StoredRun* run);
  absl::StatusOr<bool> FirstRun(StoredRun* run);
  absl::StatusOr<bool> LaterRun(StoredRun* run);
  // Puts log_ on the first entry behind after_; false at the head.
  absl::StatusOr<bool> FindTransaction();
  absl::Status OpenLog();
  absl::Status ParseRecord(StoredRun* run);
  // Puts the iterator of the current transaction on the run behind the last one returned.
  absl::Status FindLaterRun();
  absl::Status OpenSpool();
  absl::Status ReadLaterRun(StoredRun* run);
  absl::Status Deliver(StoredRun* run);
  absl::Status TransactionCutShort() const;

  const Database& database_;
  const FeedState& state_;
  const FeedId feed_;
  // Once an error, always that error: going on would jump over what could not be read.
  absl::Status failure_;

  // Newest boundary that is behind the reader.
  Position after_;
  // Appends that log_ may have missed count from here.
  uint64_t appends_seen_ = UINT64_MAX;
  std::string end_key_;
  rocksdb::Slice end_;
  std::unique_ptr<rocksdb::Iterator> log_;
  std::string spool_end_key_;
  rocksdb::Slice spool_end_;
  std::unique_ptr<rocksdb::Iterator> spool_;

  // The transaction being read, until its last run was returned.
  bool in_transaction_ = false;
  bool skip_ = false;
  Position position_;
  v1::CommitRecord record_;
  uint64_t bytes_read_ = 0;
  // Of the run returned last.
  uint64_t sequence_ = 0;
  uint32_t part_ = 0;
};

}  // namespace tidemark::store
