// Known rows in memory, and a table of a source beside them: for decisions that look at both.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/known_rows.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/table_chunk.h"

namespace tidemark::capture::postgres {

// t(id int4, a int4, note text), told apart by id or, with `keyed` false, by nothing.
inline Relation SampleRelation(bool keyed = true) {
  RelationDescription description{.oid = 7, .schema_name = "public", .table_name = "t"};
  description.columns = {{"id", 23, -1, keyed}, {"a", 23, -1, false}, {"note", 25, -1, false}};
  const std::vector<std::string> key = {"id"};
  Relation relation = BuildRelation(
      description, keyed ? std::span(key) : std::span<const std::string>(), {}, TypeCatalog());
  relation.description = std::move(description);
  return relation;
}

// Keys are integers of one column.
class MemoryRows final : public KnownRows {
 public:
  // A line as COPY prints it; "\N" is NULL.
  void Put(int64_t id, const std::string& line) {
    std::string after;
    EXPECT_TRUE(RowEncoder().EncodeCopyLine(relation_.shape, line, &after).ok()) << line;
    rows_[KeyText(id)] = after;
  }
  void PutImage(int64_t id, std::string after) { rows_[KeyText(id)] = std::move(after); }
  void Erase(int64_t id) { rows_.erase(KeyText(id)); }
  void SetKept(bool kept) { kept_ = kept; }
  static std::string KeyText(int64_t id) { return fmt::format("{:020}", id); }

  bool Kept(const v1::TableSchema&) const override { return kept_; }
  absl::StatusOr<std::string> EncodeKey(
      std::span<const std::string_view> key_values) const override {
    v1::Value value;
    EXPECT_TRUE(value.ParseFromString(std::string(key_values[0])));
    return KeyText(value.integer());
  }
  absl::StatusOr<std::optional<KnownRow>> Find(const v1::TableSchema&,
                                               std::string_view key) override {
    const auto found = rows_.find(std::string(key));
    if (found == rows_.end()) return std::nullopt;
    return Known(*found);
  }
  absl::StatusOr<std::unique_ptr<KnownRowScan>> Scan(const v1::TableSchema&,
                                                     std::string_view from_key) override {
    return std::make_unique<MapScan>(rows_, std::string(from_key));
  }
  std::vector<std::string> KeyColumns(std::string_view, std::string_view) const override {
    return KeyColumnNames(relation_);
  }
  absl::StatusOr<v1::TableSchema> Schema(uint64_t) const override { return relation_.schema; }

 private:
  using Rows = std::map<std::string, std::string>;

  static KnownRow Known(const Rows::value_type& row) {
    KnownRow known;
    known.key = row.first;
    known.schema_id = SampleRelation().schema.schema_id();
    known.after = row.second;
    return known;
  }

  class MapScan final : public KnownRowScan {
   public:
    MapScan(const Rows& rows, const std::string& from) : rows_(rows), at_(rows.lower_bound(from)) {}
    absl::StatusOr<bool> Next(KnownRow* row) override {
      if (at_ == rows_.end()) return false;
      *row = Known(*at_++);
      return true;
    }

   private:
    const Rows& rows_;
    Rows::const_iterator at_;
  };

  const Relation relation_ = SampleRelation();
  Rows rows_;
  bool kept_ = true;
};

}  // namespace tidemark::capture::postgres
