// The tables of the stream: what their Relation messages said, as schemas and as shapes to encode
// rows with. The snapshot describes its tables through the same functions, so that both paths name
// the same schema_id.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/known_rows.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/table_selection.h"
#include "capture/postgres/type_catalog.h"
#include "proto/table_name.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {

struct DescribedColumn {
  std::string name;
  uint32_t type_oid = 0;
  int32_t typmod = -1;
  bool in_identity = false;
  // As SQL names its type, whatever the search path; from the catalog only, else empty.
  std::string sql_type = {};
  // As SQL names the operators by which its type is ordered, where those are not the server's own
  // (citext): =, >=, >. The search path, which is empty, would find others.
  std::vector<std::string> operators = {};
};

// A Relation message that owns what it says.
struct RelationDescription {
  uint32_t oid = 0;
  std::string schema_name;
  std::string table_name;
  char replica_identity = 'd';
  std::vector<DescribedColumn> columns;
};

RelationDescription DescriptionOf(const RelationMessage& message);

struct Relation {
  // False: the publication sends it, the feed does not want it. Its changes count and are not kept.
  bool captured = true;
  RelationDescription description;
  v1::TableSchema schema;
  RowShape shape;
  // What the catalog said of the types holds for commits before it, unless they were changed since;
  // 0: not known. Set by ReadAgain.
  Lsn types_read_at = 0;
};

// Order of the key: of the index where the catalog still agrees with what the stream says, else of
// the columns. Pure.
Relation BuildRelation(const RelationDescription& description,
                       std::span<const std::string> primary_key,
                       std::span<const std::string> identity_index, const TypeCatalog& types);

// BuildRelation with what the catalog says now of keys and types. `key_when_gone`: names of the key
// columns for a table that is not in the catalog any more, since it was dropped behind the change
// that is read now.
absl::StatusOr<Relation> ReadRelation(Connection* catalog, const RelationDescription& description,
                                      std::span<const std::string> key_when_gone,
                                      TypeCatalog* types, absl::Time deadline);

// What current rows are to fill in the changes of a table.
struct GapPolicy {
  bool rows_kept = false;
  bool wants_before = false;
};
using GapPolicyOf = std::function<GapPolicy(const v1::TableSchema&)>;

// Thread rule: one thread at a time. `selection` must outlive the cache.
class RelationCache {
 public:
  RelationCache(const TableSelection* selection, GapPolicyOf gaps)
      : selection_(*selection), gaps_(std::move(gaps)) {}

  // What a Relation message said: replaces what was known under its OID. Asks the catalog, with a
  // deadline of its own (kCatalogTimeout). The pointer is valid until the OID is put or read again.
  // `known`, where there is one, knows the key of a table that was dropped meanwhile.
  absl::StatusOr<const Relation*> Put(RelationDescription description, Connection* catalog,
                                      const KnownRows* known);
  // The server announces a table anew when the table changes, but not when a type that its columns
  // have gets an attribute: the same description with what the catalog says now. REQUIRES: `oid`
  // was announced.
  absl::StatusOr<const Relation*> ReadAgain(uint32_t oid, Connection* catalog);
  // Null for an OID that was never announced.
  const Relation* Find(uint32_t oid) const;
  // The selection changed. Returns the relations that are captured from now on.
  std::vector<const Relation*> SelectAgain();

 private:
  std::vector<std::string> KeyBefore(const RelationDescription& description,
                                     const KnownRows* known) const;

  const TableSelection& selection_;
  const GapPolicyOf gaps_;
  TypeCatalog types_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Relation>> relations_;
};

inline constexpr absl::Duration kCatalogTimeout = absl::Seconds(20);

}  // namespace tidemark::capture::postgres
