// Whether a table's new schema tells its rows apart as the one before did. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// "(a, b)"; "none" without a key.
std::string IdentityText(const v1::TableSchema& schema);

// nullopt when keys under both schemas are equal for equal rows: the same columns in the same
// order, of which some may have been renamed. Else what happened, "from (id) to (code)".
std::optional<std::string> IdentityChange(const v1::TableSchema& before,
                                          const v1::TableSchema& after);

// What it means for the table's current rows. `had_rows`: they were kept until now.
v1::LostTable IdentityLost(const v1::TableSchema& schema, std::string_view change, bool had_rows);

}  // namespace tidemark
