// What a database has beside the tables that can be captured: relations whose changes stand in no
// log. A root that has one among its partitions would be read with its rows, and never hear of
// their changes.
// Thread rule: that of the session.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {

// How many of them a message names.
inline constexpr size_t kNamedUnloggedMax = 20;

// One that has a name as a table has, and is no partition.
struct UnloggedRelation {
  enum class Kind { kUnlogged, kUnloggedRoot, kForeign, kView, kMaterializedView };
  Kind kind = Kind::kView;
  std::string schema;
  std::string table;
};

// Those outside the system's schemas that fit a pattern, by name.
absl::StatusOr<std::vector<UnloggedRelation>> ReadUnlogged(Connection* sql,
                                                           std::span<const TablePattern> patterns,
                                                           absl::Time deadline);

// The first that a pattern names in full; null: there is none. Pure.
const UnloggedRelation* FindNamed(std::span<const TablePattern> patterns,
                                  std::span<const UnloggedRelation> unlogged);

// "public.v is a view". Pure.
std::string UnloggedText(const UnloggedRelation& relation);
// "public.a is UNLOGGED, public.v is a view". Pure.
std::string UnloggedText(std::span<const UnloggedRelation> unlogged);
// What to do where it was to be captured: a sentence, and the same as SQL, or as a comment where
// none mends it. Pure.
std::string UnloggedAdvice(const UnloggedRelation& relation);
std::string UnloggedRemedy(const UnloggedRelation& relation);

// A partition below a root, with the table that it is a partition of.
struct UnloggedPart {
  std::string schema;
  std::string table;
  // Else it is an UNLOGGED one: no partition of a permanent table is temporary.
  bool foreign = false;
  std::string parent_schema;
  std::string parent_table;
};

using UnloggedPartsByRoot = std::map<uint32_t, std::vector<UnloggedPart>>;

// By name, of those of the roots that have any.
absl::StatusOr<UnloggedPartsByRoot> ReadUnloggedParts(Connection* sql,
                                                      std::span<const uint32_t> root_oids,
                                                      absl::Time deadline);

// "public.p1 is UNLOGGED, public.p2 is a foreign table". Pure.
std::string UnloggedPartsText(std::span<const UnloggedPart> parts);
// A statement for each that is named, which makes its changes be logged or takes it out of the
// root. Pure.
std::string UnloggedPartsRemedy(std::span<const UnloggedPart> parts);

}  // namespace tidemark::capture::postgres
