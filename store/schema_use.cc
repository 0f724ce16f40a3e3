#include "store/schema_use.h"

#include "store/run_walker.h"

namespace tidemark::store {

bool SchemaUse::Add(const EncodedRun& run, const TableOfSchema& table_of) {
  // A piece of a value holds no change.
  if (run.part > 0) return true;
  RunWalker walker;
  walker.Start(run.bytes);
  RunWalker::Item item = walker.Next();
  if (item == RunWalker::Item::kChange && AllInForce(walker.schema_ids(), table_of)) return true;
  for (; item != RunWalker::Item::kEnd; item = walker.Next()) {
    if (item == RunWalker::Item::kDamaged) return false;
    if (item == RunWalker::Item::kPart) continue;
    const ChangeView& change = walker.change();
    if (change.table >= walker.schema_ids().size()) return false;
    const uint64_t schema_id = walker.schema_ids()[change.table];
    if (!Use(schema_id, run.first_sequence + change.ordinal, table_of)) return false;
  }
  return true;
}

bool SchemaUse::AllInForce(const std::vector<uint64_t>& schema_ids,
                           const TableOfSchema& table_of) const {
  for (const uint64_t id : schema_ids) {
    const auto table = table_of(id);
    if (!table) return false;
    const auto current = current_.find(std::string(*table));
    if (current == current_.end() || current->second != id) return false;
  }
  return true;
}

bool SchemaUse::Use(uint64_t schema_id, uint64_t sequence, const TableOfSchema& table_of) {
  const auto table = table_of(schema_id);
  if (!table) return false;
  uint64_t& current = current_[std::string(*table)];
  if (current == schema_id) return true;
  current = schema_id;
  steps_.push_back({sequence, schema_id});
  return true;
}

}  // namespace tidemark::store
