#include "store/lost_rows.h"

#include <memory>

namespace tidemark::store {

absl::Status LostRows::Open() {
  const std::string prefix = LostTablePrefix(feed_);
  const std::unique_ptr<rocksdb::Iterator> at(
      database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.meta()));
  std::lock_guard lock(mutex_);
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    v1::LostTable table;
    if (!table.ParseFromArray(at->value().data(), static_cast<int>(at->value().size()))) {
      return database_.Damaged("what is known of a table without rows is unreadable");
    }
    TableName name(table.schema_name(), table.table_name());
    tables_[std::move(name)] = std::move(table);
  }
  if (!at->status().ok()) return database_.Error(at->status(), "look for tables without rows");
  return absl::OkStatus();
}

void LostRows::Stage(const v1::LostTable& table, rocksdb::WriteBatch* batch) {
  const std::string rows = RowsTablePrefix(feed_, table.schema_name(), table.table_name());
  batch->DeleteRange(database_.rows(), rows, PrefixEnd(rows));
  batch->Put(database_.meta(), LostTableKey(feed_, table.schema_name(), table.table_name()),
             table.SerializeAsString());
  staged_.emplace_back(table.schema_name(), table.table_name());
  std::lock_guard lock(mutex_);
  tables_[staged_.back()] = table;
}

void LostRows::StageRestored(const TableName& table, rocksdb::WriteBatch* batch) {
  batch->Delete(database_.meta(), LostTableKey(feed_, table.first, table.second));
  staged_restored_.push_back(table);
}

void LostRows::Keep() {
  std::lock_guard lock(mutex_);
  for (const TableName& table : staged_restored_) tables_.erase(table);
  staged_.clear();
  staged_restored_.clear();
}

void LostRows::Drop() {
  std::lock_guard lock(mutex_);
  for (const TableName& table : staged_) tables_.erase(table);
  staged_.clear();
  staged_restored_.clear();
}

bool LostRows::Has(const v1::TableSchema& schema) const {
  std::lock_guard lock(mutex_);
  return !tables_.empty() && tables_.contains({schema.schema_name(), schema.table_name()});
}

std::vector<v1::LostTable> LostRows::All() const {
  std::lock_guard lock(mutex_);
  std::vector<v1::LostTable> all;
  for (const auto& [name, table] : tables_) all.push_back(table);
  return all;
}

}  // namespace tidemark::store
