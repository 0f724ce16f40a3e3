#include "capture/known_keys.h"

#include <utility>

#include "capture/row_image.h"
#include "capture/value_writer.h"

namespace tidemark::capture {
namespace {

absl::StatusOr<KnownKey> KeyOf(const KnownRows& rows, const KnownRow& row,
                               const KeyTextOf& text_of) {
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
    known.texts.push_back(text_of(value));
    AppendSerialized(ValueTag::kKey, bytes, &known.image);
  }
  return known;
}

}  // namespace

absl::StatusOr<std::deque<KnownKey>> LoadKnownKeys(KnownRows& known, const v1::TableSchema& table,
                                                   std::string_view from,
                                                   const KeyTextOf& text_of) {
  std::deque<KnownKey> keys;
  auto scan = known.Scan(table, from);
  if (!scan.ok()) return scan.status();
  KnownRow row;
  while (keys.size() < kKnownKeysMax) {
    const auto more = (*scan)->Next(&row);
    if (!more.ok()) return more.status();
    if (!*more) break;
    auto key = KeyOf(known, row, text_of);
    if (!key.ok()) return key.status();
    keys.push_back(*std::move(key));
  }
  return keys;
}

}  // namespace tidemark::capture
