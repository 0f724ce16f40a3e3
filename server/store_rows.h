// The current rows of a feed's store, as capture looks at them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/known_rows.h"
#include "store/feed_store.h"

namespace tidemark {

// Belongs to the thread of the ingest loop; the store is lent. A scan first folds what is not
// folded yet.
class StoreRows final : public capture::KnownRows {
 public:
  explicit StoreRows(store::FeedStore& store) : store_(store) {}

  bool Kept(const v1::TableSchema& table) const override { return store_.KeepsRows(table); }
  absl::StatusOr<std::string> EncodeKey(
      std::span<const std::string_view> key_values) const override;
  absl::StatusOr<std::optional<capture::KnownRow>> Find(const v1::TableSchema& table,
                                                        std::string_view key) override;
  absl::StatusOr<std::unique_ptr<capture::KnownRowScan>> Scan(const v1::TableSchema& table,
                                                              std::string_view from_key) override;
  std::vector<std::string> KeyColumns(std::string_view schema_name,
                                      std::string_view table_name) const override;
  absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const override {
    return store_.Schema(schema_id);
  }

 private:
  store::FeedStore& store_;
};

}  // namespace tidemark
