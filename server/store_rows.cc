#include "server/store_rows.h"

#include <utility>
#include <vector>

#include "capture/value_writer.h"
#include "proto/reason.h"
#include "store/identity_key.h"
#include "store/row_value.h"

namespace tidemark {
namespace {

absl::Status Damaged() {
  return ErrorWithReason(absl::StatusCode::kDataLoss, reason::kStoreDamaged,
                         "a current row holds what is no row; `logdump verify` names it");
}

absl::StatusOr<capture::KnownRow> Known(const store::StoredRow& row) {
  std::vector<std::string_view> values;
  if (!store::SplitRowFields(row.values, &values)) return Damaged();
  capture::KnownRow known{std::string(row.key), row.schema_id, row.position, row.sequence, {}};
  known.after.reserve(row.values.size());
  for (const std::string_view value : values) {
    known.after.push_back(static_cast<char>(capture::ValueTag::kAfter));
    capture::AppendVarint(value.size(), &known.after);
    known.after.append(value);
  }
  return known;
}

class StoreRowScan final : public capture::KnownRowScan {
 public:
  explicit StoreRowScan(std::unique_ptr<store::RowsReader> reader) : reader_(std::move(reader)) {}

  absl::StatusOr<bool> Next(capture::KnownRow* row) override {
    store::StoredRow stored;
    const absl::StatusOr<bool> more = reader_->Next(&stored);
    if (!more.ok() || !*more) return more;
    auto known = Known(stored);
    if (!known.ok()) return known.status();
    *row = *std::move(known);
    return true;
  }

 private:
  const std::unique_ptr<store::RowsReader> reader_;
};

class NoRows final : public capture::KnownRowScan {
 public:
  absl::StatusOr<bool> Next(capture::KnownRow*) override { return false; }
};

}  // namespace

absl::StatusOr<std::string> StoreRows::EncodeKey(
    std::span<const std::string_view> key_values) const {
  std::string key;
  for (const std::string_view value : key_values) {
    if (absl::Status s = store::AppendIdentityValue(value, &key); !s.ok()) return s;
  }
  return key;
}

absl::StatusOr<std::optional<capture::KnownRow>> StoreRows::Find(const v1::TableSchema& table,
                                                                 std::string_view key) {
  const auto found = store_.FindRow(table, key);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::nullopt;
  std::optional<store::StoredRow> row = store::DecodeRow(**found);
  if (!row) return Damaged();
  row->key = key;
  return Known(*row);
}

absl::StatusOr<std::unique_ptr<capture::KnownRowScan>> StoreRows::Scan(const v1::TableSchema& table,
                                                                       std::string_view from_key) {
  if (!Kept(table)) return std::make_unique<NoRows>();
  if (absl::Status folded = store_.FoldToHead(); !folded.ok()) return folded;
  auto reader = store_.NewTableRowsReader(table, from_key);
  if (!reader.ok()) return reader.status();
  return std::make_unique<StoreRowScan>(*std::move(reader));
}

std::vector<std::string> StoreRows::KeyColumns(std::string_view schema_name,
                                               std::string_view table_name) const {
  std::vector<std::string> names;
  const auto schema = store_.CurrentSchema(schema_name, table_name);
  if (!schema) return names;
  for (const uint32_t column : schema->key_columns()) {
    names.push_back(schema->columns(static_cast<int>(column)).name());
  }
  return names;
}

}  // namespace tidemark
