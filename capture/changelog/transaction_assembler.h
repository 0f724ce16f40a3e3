// Rows of a changelog into transactions of the feed. Pure: knows no database.
//
// Every table that a row names is a table of the feed, with two columns of the form JSON: key,
// which is its key, and row. Both are, byte for byte, the text that the changelog holds.
//
// An update that changes the key is two rows: a delete that has a row (the new one), and an insert
// that has an old row. An ordinary delete has no row, and an ordinary insert no old one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "capture/changelog/changelog_row.h"
#include "capture/source.h"
#include "capture/transaction_builder.h"
#include "proto/table_name.h"

namespace tidemark::capture::changelog {

// What a delete, update or truncate is called: its name or its first letter, in either case.
// OP_UNSPECIFIED for anything else.
v1::Op OpOf(std::string_view text);

// Thread rule: one thread at a time.
class TransactionAssembler {
 public:
  // `has_old_rows`: the changelog has a column for the row before. `before_images`: tables whose
  // current rows are to tell it where the changelog does not.
  TransactionAssembler(uint32_t generation, bool has_old_rows,
                       std::vector<TablePattern> before_images);

  // The next row of the transaction: adds what is to be handed over already. CHANGELOG_UNUSABLE
  // names the row and what is wrong with it.
  absl::Status Add(const ChangelogRow& row, std::vector<SourceEvent>* events);
  // The transaction is the `number`th that is told.
  void End(uint64_t number, uint64_t xid, int64_t clock_us, std::vector<SourceEvent>* events);

  uint64_t rows() const { return rows_; }
  // What was added to events since the last call, and what is kept for later.
  size_t TakeBytes() { return std::exchange(bytes_, 0); }

 private:
  struct Table {
    uint64_t schema_id = 0;
    bool wants_before = false;
  };

  const Table& Find(const ChangelogRow& row, std::vector<SourceEvent>* events);
  absl::Status AddChange(v1::Op op, const Table& table, const ChangelogRow& row);
  void HandOver(std::vector<SourceEvent>* events);

  const uint32_t generation_;
  const bool has_old_rows_;
  const std::vector<TablePattern> before_images_;
  std::map<std::pair<std::string, std::string>, Table, std::less<>> tables_;
  TransactionBuilder builder_;
  uint64_t rows_ = 0;
  uint64_t next_handle_ = 1;
  uint64_t handle_ = 0;  // 0: small so far
  int64_t changed_at_us_ = 0;
  size_t bytes_ = 0;
};

}  // namespace tidemark::capture::changelog
