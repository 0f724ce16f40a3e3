#include "capture/postgres/moved_rows.h"

namespace tidemark::capture::postgres {

void MovedRows::Watch(const std::set<Table>& tables) {
  std::erase_if(tables_, [&](const auto& table) { return tables.count(table.first) == 0; });
  for (const Table& table : tables) tables_.try_emplace(table);
}

void MovedRows::Add(const Table& table, Key key) {
  Moved& moved = tables_.at(table);
  if (moved.too_many) return;
  if (moved.keys.empty()) news_.insert(table);
  moved.keys[std::move(key)] = true;
  if (moved.keys.size() > kMovedRowsMax) AddAny(table);
}

void MovedRows::AddAny(const Table& table) {
  news_.insert(table);
  tables_.at(table) = {.keys = {}, .too_many = true};
}

bool MovedRows::Has(const Table& table) const {
  const auto moved = tables_.find(table);
  return moved != tables_.end() && (moved->second.too_many || !moved->second.keys.empty());
}

bool MovedRows::HasTooMany(const Table& table) const {
  const auto moved = tables_.find(table);
  return moved != tables_.end() && moved->second.too_many;
}

std::vector<MovedRows::Key> MovedRows::Next(const Table& table, size_t keys_max) {
  std::vector<Key> next;
  const auto moved = tables_.find(table);
  if (moved == tables_.end()) return next;
  for (auto& [key, is_new] : moved->second.keys) {
    if (next.size() == keys_max) break;
    next.push_back(key);
    is_new = false;
  }
  return next;
}

void MovedRows::Remove(const Table& table, std::span<const Key> keys) {
  const auto moved = tables_.find(table);
  if (moved == tables_.end()) return;
  for (const Key& key : keys) {
    const auto found = moved->second.keys.find(key);
    if (found != moved->second.keys.end() && !found->second) moved->second.keys.erase(found);
  }
}

}  // namespace tidemark::capture::postgres
