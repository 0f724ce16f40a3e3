#include "capture/postgres/relation_cache.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/table_catalog.h"
#include "proto/schema_id.h"

namespace tidemark::capture::postgres {
namespace {

// The columns named in `order`, if they are exactly the `wanted` ones.
std::vector<uint32_t> InOrder(const RelationDescription& description,
                              std::span<const std::string> order,
                              const std::vector<uint32_t>& wanted) {
  std::vector<uint32_t> columns;
  for (const std::string& name : order) {
    for (uint32_t i = 0; i < description.columns.size(); ++i) {
      if (description.columns[i].name == name) columns.push_back(i);
    }
  }
  std::vector<uint32_t> sorted = columns;
  std::sort(sorted.begin(), sorted.end());
  return sorted == wanted ? columns : wanted;
}

std::vector<uint32_t> KeyColumns(const RelationDescription& description,
                                 std::span<const std::string> primary_key,
                                 std::span<const std::string> identity_index) {
  std::vector<uint32_t> wanted;
  const bool full = description.replica_identity == 'f';
  for (uint32_t i = 0; i < description.columns.size(); ++i) {
    const DescribedColumn& column = description.columns[i];
    // Under replica identity full every column is flagged; the key is the primary key then.
    const bool in_key =
        full ? std::find(primary_key.begin(), primary_key.end(), column.name) != primary_key.end()
             : column.in_identity;
    if (in_key) wanted.push_back(i);
  }
  // A primary key of which the publication's list leaves a column out identifies nothing.
  if (full && wanted.size() != primary_key.size()) return {};
  return InOrder(description, description.replica_identity == 'i' ? identity_index : primary_key,
                 wanted);
}

v1::ImageLevel ImageLevelOf(const RelationDescription& description, bool has_key) {
  if (description.replica_identity == 'f') return v1::IMAGE_LEVEL_FULL;
  return has_key ? v1::IMAGE_LEVEL_KEY : v1::IMAGE_LEVEL_NONE;
}

}  // namespace

RelationDescription DescriptionOf(const RelationMessage& message) {
  RelationDescription description;
  description.oid = message.oid;
  description.schema_name = message.schema_name;
  description.table_name = message.table_name;
  description.replica_identity = message.replica_identity;
  for (const RelationColumn& column : message.columns) {
    description.columns.push_back(
        {std::string(column.name), column.type_oid, column.typmod, column.in_identity});
  }
  return description;
}

Relation BuildRelation(const RelationDescription& description,
                       std::span<const std::string> primary_key,
                       std::span<const std::string> identity_index, const TypeCatalog& types) {
  Relation relation;
  v1::TableSchema& schema = relation.schema;
  RowShape& shape = relation.shape;
  schema.set_schema_name(description.schema_name);
  schema.set_table_name(description.table_name);
  for (const DescribedColumn& column : description.columns) {
    v1::Column* out = schema.add_columns();
    out->set_name(column.name);
    out->set_source_type(types.SourceType(column.type_oid, column.typmod));
    out->set_form(types.FormOf(column.type_oid));
    shape.types.push_back(types.Resolve(column.type_oid));
    shape.column_names.push_back(column.name);
  }
  shape.key_columns = KeyColumns(description, primary_key, identity_index);
  schema.mutable_key_columns()->Add(shape.key_columns.begin(), shape.key_columns.end());
  schema.set_image_level(ImageLevelOf(description, !shape.key_columns.empty()));
  schema.set_schema_id(SchemaId(schema));
  shape.schema_id = schema.schema_id();
  shape.table_name = TableNameText(description.schema_name, description.table_name);
  return relation;
}

absl::StatusOr<Relation> ReadRelation(Connection* catalog, const RelationDescription& description,
                                      std::span<const std::string> key_when_gone,
                                      TypeCatalog* types, absl::Time deadline) {
  std::vector<uint32_t> oids;
  for (const DescribedColumn& column : description.columns) {
    // An added type is asked for again: it may have got an attribute or a label since.
    if (!types->Knows(column.type_oid) || types->Find(column.type_oid) != nullptr) {
      oids.push_back(column.type_oid);
    }
  }
  if (absl::Status status = LoadTypes(catalog, oids, types, deadline); !status.ok()) return status;
  absl::StatusOr<KeyOrders> orders = ReadKeyOrders(catalog, description.oid, deadline);
  if (!orders.ok()) return orders.status();
  if (!orders->table_exists) {
    return BuildRelation(description, key_when_gone, key_when_gone, *types);
  }
  return BuildRelation(description, orders->primary_key, orders->identity_index, *types);
}

std::vector<std::string> RelationCache::KeyBefore(const RelationDescription& description,
                                                  const KnownRows* known) const {
  const Relation* before = Find(description.oid);
  if (before == nullptr) {
    return known == nullptr ? std::vector<std::string>()
                            : known->KeyColumns(description.schema_name, description.table_name);
  }
  std::vector<std::string> names;
  for (const uint32_t column : before->shape.key_columns) {
    names.push_back(before->shape.column_names[column]);
  }
  return names;
}

absl::StatusOr<const Relation*> RelationCache::Put(RelationDescription description,
                                                   Connection* catalog, const KnownRows* known) {
  absl::StatusOr<Relation> relation = ReadRelation(
      catalog, description, KeyBefore(description, known), &types_, absl::Now() + kCatalogTimeout);
  if (!relation.ok()) return relation.status();
  relation->captured = selection_.Wants(description.schema_name, description.table_name);
  const GapPolicy gaps = gaps_(relation->schema);
  relation->shape.rows_kept = gaps.rows_kept;
  relation->shape.wants_before = gaps.wants_before;
  relation->description = std::move(description);
  std::unique_ptr<Relation>& kept = relations_[relation->description.oid];
  kept = std::make_unique<Relation>(*std::move(relation));
  return kept.get();
}

absl::StatusOr<const Relation*> RelationCache::ReadAgain(uint32_t oid, Connection* catalog) {
  // Before the types are read.
  absl::StatusOr<Lsn> read_at = ReadFlushed(catalog, absl::Now() + kCatalogTimeout);
  if (!read_at.ok()) return read_at.status();
  absl::StatusOr<const Relation*> kept = Put(relations_.at(oid)->description, catalog, nullptr);
  if (kept.ok()) relations_.at(oid)->types_read_at = *read_at;
  return kept;
}

std::vector<const Relation*> RelationCache::SelectAgain() {
  std::vector<const Relation*> begin;
  for (const auto& [oid, relation] : relations_) {
    const RelationDescription& description = relation->description;
    const bool captured = selection_.Wants(description.schema_name, description.table_name);
    if (captured && !relation->captured) begin.push_back(relation.get());
    relation->captured = captured;
  }
  return begin;
}

const Relation* RelationCache::Find(uint32_t oid) const {
  const auto found = relations_.find(oid);
  return found == relations_.end() ? nullptr : found->second.get();
}

}  // namespace tidemark::capture::postgres
