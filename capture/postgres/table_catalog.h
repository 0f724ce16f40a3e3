// Reads from the catalog what a table looks like and which types its columns have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/type_catalog.h"

namespace tidemark::capture::postgres {

// What a Relation message of the stream would say of the table now: columns that are not dropped,
// nor generated unless the publication sends those, of its list only. SOURCE_TABLE_MISSING when the
// table is gone.
absl::StatusOr<RelationDescription> DescribeTable(Connection* sql, const SourceTable& table,
                                                  absl::Time deadline);

// Adds to the catalog the database's own types among `oids`, and all that they are made of.
absl::Status LoadTypes(Connection* sql, std::span<const uint32_t> oids, TypeCatalog* catalog,
                       absl::Time deadline);

// Names of the columns of the table's primary key and of its replica identity's index, in the
// index's order; empty where it has none.
struct KeyOrders {
  // False: it was dropped.
  bool table_exists = false;
  std::vector<std::string> primary_key;
  std::vector<std::string> identity_index;
};
absl::StatusOr<KeyOrders> ReadKeyOrders(Connection* sql, uint32_t table_oid, absl::Time deadline);

}  // namespace tidemark::capture::postgres
