#include "capture/row_image.h"

#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "capture/value_writer.h"
#include "proto/value_json.h"

namespace tidemark::capture {
namespace {

const std::string& NullValueBytes() {
  static const std::string* const bytes = [] {
    std::string field;
    AppendNull(ValueTag::kAfter, &field);
    return new std::string(field.substr(2));
  }();
  return *bytes;
}

bool TakeVarint(std::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::vector<std::string_view>> ValuesOf(std::string_view image) {
  std::vector<std::string_view> values;
  while (!image.empty()) {
    image.remove_prefix(1);  // the tag, of one byte
    uint64_t size = 0;
    if (!TakeVarint(&image, &size) || size > image.size()) {
      return absl::DataLossError("the bytes are no image of a row");
    }
    values.push_back(image.substr(0, size));
    image.remove_prefix(size);
  }
  return values;
}

absl::StatusOr<std::string> WithValuesOf(std::string_view image, std::string_view from,
                                         std::span<const uint32_t> columns) {
  auto values = ValuesOf(image);
  if (!values.ok()) return values.status();
  const auto others = ValuesOf(from);
  if (!others.ok()) return others.status();
  for (const uint32_t column : columns) {
    if (column >= values->size() || column >= others->size()) {
      return absl::DataLossError("an image of a row has fewer columns than its schema");
    }
    (*values)[column] = (*others)[column];
  }
  std::string together;
  for (const std::string_view value : *values) {
    together.push_back(static_cast<char>(ValueTag::kAfter));
    AppendVarint(value.size(), &together);
    together.append(value);
  }
  return together;
}

absl::StatusOr<std::vector<ColumnDifference>> ColumnsThatDiffer(const RowImage& known,
                                                                const RowImage& read) {
  std::vector<ColumnDifference> differing;
  if (known.schema->schema_id() == read.schema->schema_id() && known.after == read.after) {
    return differing;
  }
  const auto known_values = ValuesOf(known.after);
  if (!known_values.ok()) return known_values.status();
  const auto read_values = ValuesOf(read.after);
  if (!read_values.ok()) return read_values.status();
  absl::flat_hash_map<std::string, std::string_view> by_name;
  for (size_t i = 0; i < known_values->size(); ++i) {
    by_name[known.schema->columns(static_cast<int>(i)).name()] = (*known_values)[i];
  }
  for (size_t i = 0; i < read_values->size(); ++i) {
    const std::string& name = read.schema->columns(static_cast<int>(i)).name();
    const auto found = by_name.find(name);
    const std::string_view before = found == by_name.end() ? NullValueBytes() : found->second;
    // An absent value has no bytes.
    if (before != (*read_values)[i]) differing.push_back({name, before.empty()});
  }
  return differing;
}

std::string KeyJson(const v1::TableSchema& schema, std::string_view image, ImageColumns columns) {
  const auto values = ValuesOf(image);
  std::string json;
  for (int i = 0; values.ok() && i < schema.key_columns_size(); ++i) {
    const uint32_t column = schema.key_columns(i);
    const size_t at = columns == ImageColumns::kKey ? static_cast<size_t>(i) : column;
    if (at >= values->size()) continue;
    const std::string_view bytes = (*values)[at];
    v1::Value value;
    if (!value.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    AppendJsonColumn(schema.columns(static_cast<int>(column)).name(), value, &json);
  }
  return json.empty() ? "{}" : "{" + json.substr(1) + "}";
}

}  // namespace tidemark::capture
