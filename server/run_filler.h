// Fills the gaps of one run of changes: columns that a change says nothing about, and the row
// before it where that is wanted, from the rows as they stand before each change.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/transaction_builder.h"
#include "proto/encoded_transaction.h"
#include "store/row_keys.h"
#include "store/run_walker.h"

namespace tidemark {

// Which tables' changes are to carry the row before them.
using WantsBefore = std::function<bool(const v1::TableSchema&)>;

// What a run becomes depends on its changes and on the rows before it alone, so that a re-capture
// gives equal bytes. Owned by one thread. Pure but for the callbacks.
class RunFiller {
 public:
  // The row (row_value.h) under a key before the run that is being filled.
  using RowBefore = std::function<absl::StatusOr<std::optional<std::string>>(
      const store::KeyedTable& table, const std::string& key)>;
  // Takes what a run becomes, in order: one run or several, since it grows.
  using Emit = std::function<absl::Status(EncodedRun)>;

  // `keys` is lent.
  RunFiller(store::RowKeys* keys, WantsBefore wants_before, RowBefore row_before, Emit emit)
      : keys_(*keys),
        wants_before_(std::move(wants_before)),
        row_before_(std::move(row_before)),
        emit_(std::move(emit)) {}

  // Before the first run of a transaction.
  void BeginTransaction() { key_change_row_.reset(); }

  // Whether a change of the run, whatever its flag says, has a gap that rows may fill.
  absl::StatusOr<bool> HasGaps(std::string_view run);

  // `pieces` are those of the values of the run's only change, in order; the runs of a transaction
  // are given in order. A gap that no row fills stays.
  absl::Status Fill(uint64_t first_sequence, std::string_view run,
                    std::span<const std::string_view> pieces);

 private:
  // A change with its values whole; views into the run, or into `owned`.
  struct WholeChange {
    v1::Op op = v1::OP_UNSPECIFIED;
    uint64_t sequence = 0;
    uint64_t schema_id = 0;
    bool key_change = false;
    std::vector<std::string_view> after;
    std::vector<std::string_view> before;
    std::vector<std::string_view> key;
    std::deque<std::string> owned;
  };

  bool MayHaveGap(const store::KeyedTable& table, const store::ChangeView& change) const;
  absl::Status PutTogether(std::span<const std::string_view> pieces, WholeChange* change);
  absl::Status FillChange(const store::KeyedTable& table, WholeChange* change);
  absl::StatusOr<std::optional<std::string>> FindBefore(const store::KeyedTable& table,
                                                        const WholeChange& change);
  // The row under key_ before the change that is being filled.
  absl::StatusOr<std::optional<std::string>> FindUnderKey(const store::KeyedTable& table);
  absl::Status TakeOver(std::string row, const store::KeyedTable& table, WholeChange* change);
  absl::Status AddToRun(const WholeChange& change);
  absl::Status Remember(const store::KeyedTable& table, const WholeChange& change);

  store::RowKeys& keys_;
  const WantsBefore wants_before_;
  const RowBefore row_before_;
  const Emit emit_;
  capture::TransactionBuilder builder_;
  // What the changes did that were not emitted yet: rows by key (nullopt: gone), emptied tables.
  absl::flat_hash_map<std::string, std::optional<std::string>> open_rows_;
  absl::flat_hash_set<std::string> open_truncated_;
  // The row that the delete half of a change of the key removed.
  std::optional<std::string> key_change_row_;
  uint64_t key_change_sequence_ = 0;
  // Scratch.
  store::RunWalker walker_;
  store::RunWalker piece_walker_;
  std::string key_;
  std::string images_[3];
};

}  // namespace tidemark
