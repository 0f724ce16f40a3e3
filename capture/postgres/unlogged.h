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

namespace tidemark::capture::postgres {

// How many of them a message names.
inline constexpr size_t kNamedUnloggedMax = 20;

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
