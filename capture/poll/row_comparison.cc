#include "capture/poll/row_comparison.h"

#include <utility>

#include "capture/value_writer.h"
#include "proto/value_json.h"

namespace tidemark::capture::poll {
namespace {

absl::StatusOr<KnownKey> KnownKeyOf(const KnownRows& rows, const KnownRow& row,
                                    const PollEngine& engine) {
  const auto schema = rows.Schema(row.schema_id);
  if (!schema.ok()) return schema.status();
  const auto values = ValuesOf(row.after);
  if (!values.ok()) return values.status();
  KnownKey known{.key = row.key};
  for (const uint32_t column : schema->key_columns()) {
    v1::Value value;
    const std::string_view bytes = values->at(column);
    if (!value.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::DataLossError("a key of a stored row is unreadable");
    }
    known.texts.push_back(engine.KeyText(value));
    known.image.push_back(static_cast<char>(ValueTag::kKey));
    AppendVarint(bytes.size(), &known.image);
    known.image.append(bytes);
  }
  return known;
}

}  // namespace

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
    if (known->has_value()) judged.verdict = RowVerdict::kDelete;
    return judged;
  }
  if (!known->has_value()) {
    judged.verdict = RowVerdict::kInsert;
    return judged;
  }
  const auto stands_under = known_.Schema((*known)->schema_id);
  if (!stands_under.ok()) return stands_under.status();
  auto columns = ColumnsThatDiffer({&*stands_under, (*known)->after}, {&schema, row.after});
  if (!columns.ok()) return columns.status();
  if (!columns->empty()) judged.verdict = RowVerdict::kUpdate;
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
  std::deque<KnownKey> keys;
  auto scan = known_.Scan(schema, from);
  if (!scan.ok()) return scan.status();
  KnownRow row;
  while (keys.size() < kKnownKeysMax) {
    const auto more = (*scan)->Next(&row);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto key = KnownKeyOf(known_, row, engine);
    if (!key.ok()) return key.status();
    keys.push_back(*std::move(key));
  }
  return keys;
}

std::string KeyJson(const v1::TableSchema& schema, std::string_view key_image) {
  const auto values = ValuesOf(key_image);
  std::string json;
  for (size_t i = 0; values.ok() && i < values->size(); ++i) {
    const auto column = static_cast<int>(schema.key_columns(static_cast<int>(i)));
    v1::Value value;
    const std::string_view bytes = (*values)[i];
    if (!value.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    AppendJsonColumn(schema.columns(column).name(), value, &json);
  }
  return json.empty() ? "{}" : "{" + json.substr(1) + "}";
}

}  // namespace tidemark::capture::poll
