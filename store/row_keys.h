// Under which key of the rows a change of the log stands. Owned by one thread; pure but for the
// lookups that it is given.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/key_format.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

// A table under one of its schemas.
struct KeyedTable {
  v1::TableSchema schema;
  // RowsTablePrefix; empty where no rows of the table are kept.
  std::string prefix;

  bool kept() const { return !prefix.empty(); }
};

class RowKeys {
 public:
  using FindSchema = std::function<absl::StatusOr<v1::TableSchema>(uint64_t schema_id)>;
  using KeepsRows = std::function<bool(const v1::TableSchema&)>;

  RowKeys(FeedId feed, FindSchema schema, KeepsRows keeps_rows)
      : feed_(feed), schema_(std::move(schema)), keeps_rows_(std::move(keeps_rows)) {}

  // Valid as long as this. Errors are those of the lookup.
  absl::StatusOr<const KeyedTable*> Find(uint64_t schema_id);
  // Every schema is asked for anew, and whether its rows are kept.
  void Forget() { tables_.clear(); }

  // REQUIRES: table.kept(). IDENTITY_UNUSABLE; STORE_DAMAGED for a row that is not of this schema.

  // Of a row, from its columns.
  static absl::Status OfRow(const KeyedTable& table, const std::vector<std::string_view>& row,
                            std::string* key);
  // Of a row, from the values of its key.
  static absl::Status OfKey(const KeyedTable& table, const std::vector<std::string_view>& values,
                            std::string* key);

 private:
  const FeedId feed_;
  const FindSchema schema_;
  const KeepsRows keeps_rows_;
  absl::node_hash_map<uint64_t, KeyedTable> tables_;
};

}  // namespace tidemark::store
