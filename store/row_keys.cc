#include "store/row_keys.h"

#include <fmt/format.h>

#include <utility>

#include "proto/reason.h"
#include "store/identity_key.h"

namespace tidemark::store {
namespace {

absl::Status WrongWidth(const KeyedTable& table, size_t found, int wanted) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kStoreDamaged,
      fmt::format("a change of table {}.{} has {} values where its schema has {}",
                  table.schema.schema_name(), table.schema.table_name(), found, wanted));
}

}  // namespace

absl::StatusOr<const KeyedTable*> RowKeys::Find(uint64_t schema_id) {
  const auto known = tables_.find(schema_id);
  if (known != tables_.end()) return &known->second;
  absl::StatusOr<v1::TableSchema> schema = schema_(schema_id);
  if (!schema.ok()) return schema.status();
  schema->set_schema_id(schema_id);
  KeyedTable table;
  if (schema->key_columns_size() > 0 && keeps_rows_(*schema)) {
    table.prefix = RowsTablePrefix(feed_, schema->schema_name(), schema->table_name());
  }
  table.schema = *std::move(schema);
  return &tables_.emplace(schema_id, std::move(table)).first->second;
}

absl::Status RowKeys::OfRow(const KeyedTable& table, const std::vector<std::string_view>& row,
                            std::string* key) {
  if (row.size() != static_cast<size_t>(table.schema.columns_size())) {
    return WrongWidth(table, row.size(), table.schema.columns_size());
  }
  *key = table.prefix;
  for (const uint32_t column : table.schema.key_columns()) {
    if (column >= row.size()) return WrongWidth(table, row.size(), static_cast<int>(column) + 1);
    if (absl::Status s = AppendIdentityValue(row[column], key); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status RowKeys::OfKey(const KeyedTable& table, const std::vector<std::string_view>& values,
                            std::string* key) {
  if (values.size() != static_cast<size_t>(table.schema.key_columns_size())) {
    return WrongWidth(table, values.size(), table.schema.key_columns_size());
  }
  *key = table.prefix;
  for (const std::string_view value : values) {
    if (absl::Status s = AppendIdentityValue(value, key); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace tidemark::store
