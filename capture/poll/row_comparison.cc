#include "capture/poll/row_comparison.h"

#include <utility>

namespace tidemark::capture::poll {

absl::StatusOr<std::string> RowComparison::KeyOf(const PolledRow& row) const {
  const auto values = ValuesOf(row.key_image);
  if (!values.ok()) return values.status();
  return known_.EncodeKey(*values);
}

absl::StatusOr<JudgedRow> RowComparison::Judge(const v1::TableSchema& schema,
                                               const PolledRow& row) {
  absl::StatusOr<std::string> key = KeyOf(row);
  if (!key.ok()) return key.status();
  JudgedRow judged{.key = *std::move(key)};
  if (row.tombstone && row.overruled) return judged;
  const auto known = known_.Find(schema, judged.key);
  if (!known.ok()) return known.status();
  if (row.tombstone || row.overruled) {
    if (known->has_value()) judged.told_as = ToldAs::kDelete;
    return judged;
  }
  if (!known->has_value()) {
    judged.told_as = ToldAs::kInsert;
    return judged;
  }
  const auto stands_under = known_.Schema((*known)->schema_id);
  if (!stands_under.ok()) return stands_under.status();
  auto columns = ColumnsThatDiffer({&*stands_under, (*known)->after}, {&schema, row.after});
  if (!columns.ok()) return columns.status();
  if (!columns->empty()) judged.told_as = ToldAs::kUpdate;
  judged.columns = *std::move(columns);
  return judged;
}

absl::StatusOr<bool> RowComparison::IsKnown(const v1::TableSchema& schema, std::string_view key) {
  const auto known = known_.Find(schema, key);
  if (!known.ok()) return known.status();
  return known->has_value();
}

absl::StatusOr<std::deque<KnownKey>> RowComparison::LoadKeys(const v1::TableSchema& schema,
                                                             std::string_view from,
                                                             const PollEngine& engine) {
  return LoadKnownKeys(known_, schema, from,
                       [&engine](const v1::Value& value) { return engine.KeyText(value); });
}

}  // namespace tidemark::capture::poll
