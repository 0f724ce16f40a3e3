// Known rows in memory: the fold of what a source handed over, as the store has it behind a server.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/known_rows.h"
#include "capture/value_writer.h"

namespace tidemark::capture {

class RememberedRows final : public KnownRows {
 public:
  void See(const v1::TableSchema& schema) {
    schemas_[schema.schema_id()] = schema;
    newest_[NameOf(schema)] = schema;
  }

  // A change that was handed over, in order.
  void Apply(const v1::TableSchema& schema, const v1::Change& change) {
    Rows& rows = tables_[NameOf(schema)];
    std::vector<std::string> key;
    if (change.op() == v1::OP_DELETE) {
      for (const v1::Value& value : change.key()) key.push_back(value.SerializeAsString());
      rows.erase(KeyText(key));
      return;
    }
    for (const uint32_t column : schema.key_columns()) {
      key.push_back(change.after(static_cast<int>(column)).SerializeAsString());
    }
    KnownRow row;
    row.key = KeyText(key);
    row.schema_id = schema.schema_id();
    for (const v1::Value& value : change.after()) {
      const std::string bytes = value.SerializeAsString();
      row.after.push_back(static_cast<char>(ValueTag::kAfter));
      AppendVarint(bytes.size(), &row.after);
      row.after += bytes;
    }
    rows[row.key] = std::move(row);
  }

  // As if changes had been missed: the table's only row, or one of them, is forgotten or spoiled.
  void Forget(const std::string& table, std::string_view key) {
    tables_[table].erase(Find(table, key));
  }
  size_t Count(const std::string& table) { return tables_[table].size(); }
  void Clear() { tables_.clear(); }

  bool Kept(const v1::TableSchema&) const override { return true; }
  absl::StatusOr<std::string> EncodeKey(std::span<const std::string_view> values) const override {
    std::vector<std::string> key(values.begin(), values.end());
    return KeyText(key);
  }
  absl::StatusOr<std::optional<KnownRow>> Find(const v1::TableSchema& schema,
                                               std::string_view key) override {
    const Rows& rows = tables_[NameOf(schema)];
    const auto found = rows.find(std::string(key));
    if (found == rows.end()) return std::nullopt;
    return found->second;
  }
  absl::StatusOr<std::unique_ptr<KnownRowScan>> Scan(const v1::TableSchema& schema,
                                                     std::string_view from_key) override {
    return std::make_unique<MapScan>(tables_[NameOf(schema)], std::string(from_key));
  }
  std::vector<std::string> KeyColumns(std::string_view schema_name,
                                      std::string_view table_name) const override {
    std::vector<std::string> names;
    const auto found = newest_.find(std::string(schema_name) + "." + std::string(table_name));
    if (found == newest_.end()) return names;
    for (const uint32_t column : found->second.key_columns()) {
      names.push_back(found->second.columns(static_cast<int>(column)).name());
    }
    return names;
  }
  absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const override {
    const auto found = schemas_.find(schema_id);
    if (found == schemas_.end()) return absl::NotFoundError("no such schema");
    return found->second;
  }

 private:
  using Rows = std::map<std::string, KnownRow>;

  class MapScan final : public KnownRowScan {
   public:
    MapScan(Rows rows, const std::string& from)
        : rows_(std::move(rows)), at_(rows_.lower_bound(from)) {}
    absl::StatusOr<bool> Next(KnownRow* row) override {
      if (at_ == rows_.end()) return false;
      *row = (at_++)->second;
      return true;
    }

   private:
    const Rows rows_;
    Rows::const_iterator at_;
  };

  static std::string NameOf(const v1::TableSchema& schema) {
    return schema.schema_name() + "." + schema.table_name();
  }
  static std::string KeyText(const std::vector<std::string>& values) {
    std::string key;
    for (const std::string& value : values) {
      key.push_back(static_cast<char>(value.size()));
      key += value;
    }
    return key;
  }
  // The first row whose image holds that text.
  Rows::iterator Find(const std::string& table, std::string_view text) {
    Rows& rows = tables_[table];
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      if (row->second.after.find(text) != std::string::npos) return row;
    }
    return rows.begin();
  }

  std::map<uint64_t, v1::TableSchema> schemas_;
  std::map<std::string, v1::TableSchema> newest_;
  std::map<std::string, Rows> tables_;
};

}  // namespace tidemark::capture
