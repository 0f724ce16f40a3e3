// What holds of every stream of a polled feed, whatever its tables went through: a change tells a
// difference, and one transaction tells of a row once.
// Pure.
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "tests/testing/recorded_stream.h"

namespace tidemark::testing {

class PolledRows {
 public:
  // An error: the change tells nothing that was not known, or what cannot be.
  absl::Status Take(const RecordedChange& change) {
    const std::string key = change.table + " " + DescribeColumns(change.key);
    const auto known = rows_.find(key);
    const bool there = known != rows_.end();
    if (change.op == "delete") {
      if (!there) return Wrong(change, "no such row was there");
      rows_.erase(known);
      return absl::OkStatus();
    }
    if (change.op == "insert" && there) return Wrong(change, "the row was there");
    if (change.op == "update" && !there) return Wrong(change, "no such row was there");
    if (change.op == "truncate") return Wrong(change, "no poll tells that");
    if (there && known->second == change.columns) return Wrong(change, "the row was like that");
    rows_[key] = change.columns;
    return absl::OkStatus();
  }

  void TakeRow(const RecordedChange& row) {
    rows_[row.table + " " + DescribeColumns(row.key)] = row.columns;
  }

 private:
  static absl::Status Wrong(const RecordedChange& change, const std::string& what) {
    return absl::FailedPreconditionError(fmt::format("{}: {}", Describe(change), what));
  }

  std::map<std::string, Columns> rows_;
};

// Over the rows of the last bootstrap and everything behind it.
inline absl::Status CheckDifferences(const RecordedStream& stream) {
  PolledRows rows;
  for (const RecordedSegment& segment : stream.segments()) {
    const auto read = RowsOf(segment);
    if (!read.ok()) return read.status();
    for (const RecordedEvent& event : segment.events) {
      if (event.record.opened().rows_follow()) rows = {};
    }
    for (const RecordedChange& row : *read) rows.TakeRow(row);
    const auto transactions = TransactionsOf(segment);
    if (!transactions.ok()) return transactions.status();
    for (const RecordedTransaction& transaction : *transactions) {
      if (!transaction.finished) continue;
      std::set<std::string> keys;
      for (const RecordedChange& change : transaction.changes) {
        if (absl::Status told = rows.Take(change); !told.ok()) return told;
        if (keys.insert(change.table + " " + DescribeColumns(change.key)).second) continue;
        return absl::FailedPreconditionError("told twice by one poll: " + Describe(change));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tidemark::testing
