// Reads the log of one feed in pages: the wire bytes of whole small transactions and of parts of
// large ones, as a filter leaves them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/position.h"
#include "server/limits.h"
#include "server/run_filter.h"
#include "store/feed_store.h"

namespace tidemark {

// What comes before a change of schema or a gap: `transactions` fields of v1::Batch, and then that.
struct LogPageHead {
  std::string batch;
  std::vector<uint64_t> schema_ids;
  uint64_t transactions = 0;
  std::variant<store::SchemaTransition, store::Gap> then;
};

struct LogPage {
  // With Options::shows_schema_changes and shows_gaps: each stands before what follows it; then
  // comes `batch`.
  std::vector<LogPageHead> heads;
  // `transactions` fields of v1::Batch.
  std::string batch;
  // Schemas that the batch uses, in order of first use.
  std::vector<uint64_t> schema_ids;
  // Transactions of which the batch holds the last part (the heads have their own).
  uint64_t transactions = 0;
  // Everything at or before it was delivered or filtered out, by this page or before it.
  Position upto;
  // The page ends inside a transaction behind `upto`.
  bool inside = false;
  // Nothing was left behind the page when it was read (or nothing up to the bound).
  bool at_end = false;
  // At the end because this transaction, which is there, was committed too late.
  std::optional<Position> too_late;

  bool empty() const { return heads.empty() && batch.empty(); }
};

// Where a page stopped inside a transaction.
struct InsidePosition {
  Position position;
  uint64_t sequence = 0;
  uint32_t part = 0;
};

// Thread rule: one thread at a time. The store and the filter outlive it.
class LogPager {
 public:
  struct Options {
    // Makes the cursor of a boundary. Not set: transactions are sent without one.
    std::function<std::string(const Position&)> cursor_of;
    // Transactions behind it are not read.
    std::optional<Position> until;
    // Nor is the first one that was committed later than this, and what comes behind it.
    int64_t commit_time_us_max = std::numeric_limits<int64_t>::max();
    // A page ends behind the transaction with which it holds so many changes.
    uint64_t changes_max = std::numeric_limits<uint64_t>::max();
    // A transaction is cut into parts of this size, if it is larger.
    size_t part_bytes = limits::message_bytes_target;
    // The page is cut wherever the schema of a wanted table changes.
    bool shows_schema_changes = false;
    // And wherever a transaction follows a gap. Gaps that nothing follows are not shown.
    bool shows_gaps = false;
  };

  LogPager(const store::FeedStore& store, RunFilter& filter, const Position& after,
           Options options);

  // Goes on inside the transaction behind `after`, behind the run named; false when that run is no
  // longer there.
  absl::StatusOr<bool> SkipInto(const InsidePosition& inside);

  // A page ends when its batch has `bytes_target` bytes or a bounded stretch of the log was read,
  // so that it may be empty. It is at most one part and one run larger than the target.
  // CURSOR_EXPIRED when the log was trimmed past this reader.
  absl::StatusOr<LogPage> Next(size_t bytes_target);

  const Position& upto() const { return upto_; }
  // Set after a page that ended inside a transaction.
  std::optional<InsidePosition> inside() const { return inside_; }
  // Lets go of what reading pins, until the next page.
  void Rest();

 private:
  absl::StatusOr<bool> Read(store::StoredRun* run);
  absl::Status CutAtSteps(const store::StoredRun& run, LogPage* page);
  void Cut(std::variant<store::SchemaTransition, store::Gap> then, LogPage* page);
  absl::Status AddRun(const store::StoredRun& run);
  void ClosePart(const store::StoredRun& run, LogPage* page, bool last);

  const store::FeedStore& store_;
  RunFilter& filter_;
  const Options options_;
  std::unique_ptr<store::LogReader> reader_;
  Position upto_;
  std::optional<InsidePosition> inside_;
  bool past_bound_ = false;
  // Changes of schema in the transaction that is being read, which were not shown yet.
  std::deque<store::SchemaTransition> steps_;
  size_t heads_bytes_ = 0;
  std::optional<Position> too_late_;

  // The part of a transaction that is being collected.
  std::string runs_;
  // Of the transaction that is being read.
  uint64_t delivered_ = 0;
  bool part_sent_ = false;
};

}  // namespace tidemark
