// What a row that was read says beside what is known of it: a poll, a scan of all keys and a
// verification decide by the same comparison.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/known_keys.h"
#include "capture/known_rows.h"
#include "capture/poll/poll_engine.h"
#include "capture/row_image.h"

namespace tidemark::capture::poll {

// What is told where this row stands at the source, and what is known of it is as it is.
enum class ToldAs { kNothing, kInsert, kUpdate, kDelete };

struct JudgedRow {
  ToldAs told_as = ToldAs::kNothing;
  // As KnownRows::EncodeKey.
  std::string key;
  // kUpdate only.
  std::vector<ColumnDifference> columns;
};

// Thread rule: that of KnownRows, which is lent. Errors are those of KnownRows.
class RowComparison {
 public:
  explicit RowComparison(KnownRows* known) : known_(*known) {}

  // A row, or a tombstone, as it stands at the source now.
  absl::StatusOr<JudgedRow> Judge(const v1::TableSchema& schema, const PolledRow& row);
  absl::StatusOr<std::string> KeyOf(const PolledRow& row) const;
  absl::StatusOr<bool> IsKnown(const v1::TableSchema& schema, std::string_view key);
  // LoadKnownKeys, as the engine takes them.
  absl::StatusOr<std::deque<KnownKey>> LoadKeys(const v1::TableSchema& schema,
                                                std::string_view from, const PollEngine& engine);
  KnownRows& known() { return known_; }

 private:
  KnownRows& known_;
};

}  // namespace tidemark::capture::poll
