// Checks the current rows of one feed: each row for itself, and all of them against the fold of the
// log as far as that reaches back. Owned by one thread. Memory: a stretch of the log at a time
// (kFoldStretchBytes), and about 40 bytes for every key that the log changes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "store/database.h"
#include "store/feed_facts.h"
#include "store/finding.h"
#include "store/fold.h"
#include "store/row_value.h"

namespace tidemark::store {

inline constexpr size_t kFoldStretchBytes = size_t{32} << 20;

class RowsCheck {
 public:
  // REQUIRES: facts.rows. `facts` outlives this.
  RowsCheck(const Database& database, const FeedFacts& facts, ReportFinding report)
      : database_(database), facts_(facts), report_(std::move(report)) {}

  // Folds the log up to the rows' boundary and compares, then looks at every row. Errors are the
  // disk's.
  absl::Status Run();

  uint64_t rows() const { return rows_; }
  // Tables that the log changes and that have no current row, by name: rows are not kept, were all
  // removed, or are lost. They are not compared.
  const std::set<std::string>& tables_without_rows() const { return tables_without_rows_; }

 private:
  // Where a change stands in the feed.
  struct Place {
    Position position;
    uint64_t sequence = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // What is known of one table, by the prefix of its keys.
  struct Table {
    std::string name;
    bool has_rows = false;
    // The log holds a truncate of it.
    bool truncated = false;
    // Hashes of the keys of rows that the log wrote last and that are there as it wrote them, and
    // of rows that it wrote and that are not there: an error unless it removes them further on.
    absl::flat_hash_set<size_t> confirmed;
    absl::flat_hash_map<size_t, Place> missing;
  };

  absl::Status FoldLog();
  // Compares what a stretch of the log did; all of it lies before `end`.
  absl::Status Compare(const FoldedRows& folded, const Place& end);
  absl::Status CompareRow(const FoldedRow& folded, const Place& end);
  void CompareValues(std::string_view key, const StoredRow& stored, const StoredRow& folded);
  void ReportMissing();
  absl::Status ScanRows();
  void CheckRow(std::string_view key, const StoredRow& row);
  void CheckKey(std::string_view key, const StoredRow& row);
  bool KeepsRows(const v1::TableSchema& schema);
  Table* TableOf(std::string_view key);
  // Position and sequence that wrote the row.
  Place PlaceOf(const StoredRow& row) const;
  void Report(std::string_view check, const Place& place, std::string text) const;

  const Database& database_;
  const FeedFacts& facts_;
  const ReportFinding report_;
  std::map<std::string, Table, std::less<>> tables_;
  std::set<std::string> tables_without_rows_;
  // The whole of the log could be folded.
  bool compared_ = false;
  uint64_t rows_ = 0;
};

}  // namespace tidemark::store
