#include "store/schema_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/schema_id.h"

namespace tidemark::store {
namespace {

std::string TableOf(std::string_view schema_name, std::string_view table_name) {
  std::string table(schema_name);
  table.push_back('\0');
  table.append(table_name);
  table.push_back('\0');
  return table;
}

std::string TableOf(const v1::TableSchema& schema) {
  return TableOf(schema.schema_name(), schema.table_name());
}

// `where`: position | sequence.
SchemaTransition StepOf(std::string_view where, uint64_t before, std::string_view after) {
  return {.position = *Position::FromBytes(where.substr(0, Position::kBytes)),
          .sequence = ReadBig64(where.data() + Position::kBytes),
          .before = before,
          .after = ReadBig64(after.data())};
}

absl::Status UnknownSchema(const Position& position) {
  return absl::InvalidArgumentError(
      fmt::format("the transaction at {} names a schema that was not given", position.Text()));
}

}  // namespace

absl::Status SchemaHistory::Open() {
  std::lock_guard lock(mutex_);
  const std::unique_ptr<rocksdb::Iterator> at(
      database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.schemas()));
  const std::string prefix = FeedPrefix(feed_);
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    const std::string_view value = at->value().ToStringView();
    if (key.size() > prefix.size() && key[prefix.size()] == 'D') {
      auto known = std::make_unique<Known>();
      if (!known->schema.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
        return database_.Damaged("a table schema is unreadable");
      }
      known->table = TableOf(known->schema);
      first_[known->table] = known->schema.schema_id();
      known_[known->schema.schema_id()] = std::move(known);
      continue;
    }
    // History entries follow all schemas, in order of table, then of position: the last one stays.
    const size_t tail = Position::kBytes + 8;
    if (value.size() != 8 || key.size() < prefix.size() + 1 + tail) {
      return database_.Damaged("an entry of the schema history is unreadable");
    }
    const std::string table(key.substr(prefix.size() + 1, key.size() - prefix.size() - 1 - tail));
    const SchemaTransition step = StepOf(key.substr(key.size() - tail), in_force_[table], value);
    in_force_[table] = step.after;
    if (!known_.contains(step.after)) {
      return database_.Damaged("the schema history names a schema that is not there");
    }
    if (step.before != 0) steps_.push_back(step);
    first_.erase(table);
  }
  std::sort(steps_.begin(), steps_.end(), [](const SchemaTransition& a, const SchemaTransition& b) {
    return std::tie(a.position, a.sequence) < std::tie(b.position, b.sequence);
  });
  return database_.Error(at->status(), "read the schemas");
}

void SchemaHistory::Clear() {
  std::lock_guard lock(mutex_);
  known_.clear();
  in_force_.clear();
  first_.clear();
  steps_.clear();
  staged_.clear();
  staged_steps_.clear();
}

absl::Status SchemaHistory::Learn(const std::vector<v1::TableSchema>& schemas,
                                  rocksdb::WriteBatch* batch) {
  for (const v1::TableSchema& schema : schemas) {
    const uint64_t id = schema.schema_id();
    // Written again even when known: what made it known may not have reached the disk.
    batch->Put(database_.schemas(), SchemaKey(feed_, id), schema.SerializeAsString());
    if (known_.contains(id)) {
      std::lock_guard lock(mutex_);
      const std::string& table = known_[id]->table;
      if (!in_force_.contains(table)) first_[table] = id;
      continue;
    }
    if (id != SchemaId(schema)) {
      return absl::InvalidArgumentError(
          fmt::format("schema {} of table {}.{} is not named by the "
                      "hash of its content",
                      id, schema.schema_name(), schema.table_name()));
    }
    auto known = std::make_unique<Known>(Known{schema, TableOf(schema)});
    std::lock_guard lock(mutex_);
    if (!in_force_.contains(known->table)) first_[known->table] = id;
    known_[id] = std::move(known);
  }
  return absl::OkStatus();
}

void SchemaHistory::StageFirst(const Position& position, rocksdb::WriteBatch* batch) {
  for (const auto& [table, id] : first_) {
    if (!staged_.contains(table)) StageStep(position, 0, id, batch);
  }
}

absl::Status SchemaHistory::Stage(const Position& position, const std::vector<EncodedRun>& runs,
                                  const v1::CommitRecord& record, rocksdb::WriteBatch* batch) {
  const bool nothing_new = std::all_of(record.schema_ids().begin(), record.schema_ids().end(),
                                       [this](uint64_t id) { return InForce(id); });
  if (nothing_new) return absl::OkStatus();
  SchemaUse use;
  const TableOfSchema table_of = Tables();
  for (const EncodedRun& run : runs) {
    if (!use.Add(run, table_of)) return UnknownSchema(position);
  }
  for (const uint64_t id : record.schema_ids()) {
    if (!known_.contains(id)) return UnknownSchema(position);
  }
  Stage(position, use, batch);
  return absl::OkStatus();
}

void SchemaHistory::Stage(const Position& position, const SchemaUse& use,
                          rocksdb::WriteBatch* batch) {
  for (const SchemaUse::Step& step : use.steps()) {
    if (!InForce(step.schema_id)) StageStep(position, step.sequence, step.schema_id, batch);
  }
}

void SchemaHistory::StageStep(const Position& position, uint64_t sequence, uint64_t schema_id,
                              rocksdb::WriteBatch* batch) {
  const Known& known = *known_.at(schema_id);
  std::string value;
  AppendBig64(&value, schema_id);
  batch->Put(database_.schemas(),
             SchemaHistoryKey(feed_, known.schema.schema_name(), known.schema.table_name(),
                              position, sequence),
             value);
  const uint64_t before = InForceOf(known.table);
  if (before != 0) staged_steps_.push_back({position, sequence, before, schema_id});
  staged_[known.table] = schema_id;
}

uint64_t SchemaHistory::InForceOf(const std::string& table) const {
  if (const auto staged = staged_.find(table); staged != staged_.end()) return staged->second;
  const auto in_force = in_force_.find(table);
  return in_force == in_force_.end() ? 0 : in_force->second;
}

bool SchemaHistory::InForce(uint64_t schema_id) const {
  const auto known = known_.find(schema_id);
  return known != known_.end() && InForceOf(known->second->table) == schema_id;
}

void SchemaHistory::Keep() {
  if (staged_.empty()) return;
  std::lock_guard lock(mutex_);
  for (const auto& [table, id] : staged_) {
    in_force_[table] = id;
    first_.erase(table);
  }
  staged_.clear();
  // Positions only rise, and so do the sequences within a transaction.
  steps_.insert(steps_.end(), staged_steps_.begin(), staged_steps_.end());
  staged_steps_.clear();
}

void SchemaHistory::Drop() {
  staged_.clear();
  staged_steps_.clear();
}

std::vector<SchemaTransition> SchemaHistory::Steps(const Position& after,
                                                   const Position& upto) const {
  std::lock_guard lock(mutex_);
  const auto behind = [](const Position& position, const SchemaTransition& step) {
    return position < step.position;
  };
  const auto first = std::upper_bound(steps_.begin(), steps_.end(), after, behind);
  return {first, std::upper_bound(first, steps_.end(), upto, behind)};
}

TableOfSchema SchemaHistory::Tables() const {
  return [this](uint64_t id) -> std::optional<std::string_view> {
    const auto known = known_.find(id);
    if (known == known_.end()) return std::nullopt;
    return known->second->table;
  };
}

absl::StatusOr<v1::TableSchema> SchemaHistory::Schema(uint64_t schema_id) const {
  std::lock_guard lock(mutex_);
  const auto known = known_.find(schema_id);
  if (known == known_.end()) {
    return absl::NotFoundError(fmt::format("the feed has no schema {:016x}", schema_id));
  }
  return known->second->schema;
}

bool SchemaHistory::Any(const std::function<bool(const v1::TableSchema&)>& such) const {
  std::lock_guard lock(mutex_);
  return std::any_of(known_.begin(), known_.end(),
                     [&](const auto& entry) { return such(entry.second->schema); });
}

std::vector<v1::TableSchema> SchemaHistory::Current() const {
  std::vector<v1::TableSchema> schemas;
  {
    std::lock_guard lock(mutex_);
    for (const auto* tables : {&in_force_, &first_}) {
      for (const auto& [table, id] : *tables) schemas.push_back(known_.at(id)->schema);
    }
  }
  std::sort(schemas.begin(), schemas.end(), [](const auto& a, const auto& b) {
    return std::tie(a.schema_name(), a.table_name()) < std::tie(b.schema_name(), b.table_name());
  });
  return schemas;
}

std::optional<v1::TableSchema> SchemaHistory::Current(std::string_view schema_name,
                                                      std::string_view table_name) const {
  const std::string table = TableOf(schema_name, table_name);
  std::lock_guard lock(mutex_);
  for (const auto* tables : {&in_force_, &first_}) {
    const auto found = tables->find(table);
    if (found != tables->end()) return known_.at(found->second)->schema;
  }
  return std::nullopt;
}

}  // namespace tidemark::store
