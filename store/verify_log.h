// Checks the log of one feed, entry by entry. Pure: it is given what a scan of the log yields.
// Owned by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "store/feed_facts.h"
#include "store/finding.h"
#include "store/log_scan.h"

namespace tidemark::store {

class LogCheck {
 public:
  // `facts` outlives this.
  LogCheck(const FeedFacts& facts, ReportFinding report)
      : facts_(facts), report_(std::move(report)) {}

  // Every entry in the order in which it is stored. Each is checked for itself, against the one
  // before it (a pair (position, sequence) that does not rise is reported with both entries' names)
  // and, at the end of a transaction, against the commit record.
  void Add(const ScannedEntry& entry);
  // After the last entry.
  void Finish();

  uint64_t transactions() const { return transactions_; }
  uint64_t changes() const { return changes_; }

 private:
  // A value of which pieces are awaited.
  struct AwaitedValue {
    std::string entry;
    uint64_t size_bytes = 0;
    std::string bytes;
  };
  // The transaction being read.
  struct Open {
    Position position;
    v1::CommitRecord record;
    std::string entry;
    uint64_t changes = 0;
    uint64_t bytes = 0;
    uint64_t runs = 0;
    std::set<uint64_t> schema_ids;
  };

  void Report(std::string_view check, const ScannedEntry& entry, std::string text);
  void BeginTransaction(const ScannedEntry& entry);
  void EndTransaction();
  void CheckCommitLsn(const ScannedEntry& entry);
  void CheckRun(const ScannedEntry& entry);
  void CheckChange(const ScannedEntry& entry, const v1::Run& run, const v1::Change& change);
  void CheckOrder(const ScannedEntry& entry, uint64_t sequence);
  void CheckPart(const ScannedEntry& entry, const v1::ValuePart& part);
  void CheckNothingAwaited(std::string_view where);
  void CheckImage(const ScannedEntry& entry, const v1::TableSchema& schema,
                  const v1::Change& change);
  void CheckReferences();

  const FeedFacts& facts_;
  const ReportFinding report_;
  std::optional<Open> open_;
  // The change before, and the entry that holds it.
  std::optional<Position> last_position_;
  uint64_t last_sequence_ = 0;
  std::string last_entry_;
  // The source's transaction before: end of its commit, and its name.
  std::optional<Position> last_commit_;
  // (image, column) of the change before.
  std::map<std::pair<int, uint32_t>, AwaitedValue> awaited_;
  std::set<uint64_t> missing_schemas_;
  std::set<uint64_t> spools_seen_;
  uint64_t transactions_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace tidemark::store
