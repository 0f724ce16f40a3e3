// Prints a type as people write it, with its modifiers, as the server's format_type() does. Pure;
// safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "capture/postgres/built_in_types.h"

namespace tidemark::capture::postgres {

// numeric(10,2), timestamp(3) with time zone, interval hour to second(3). typmod -1: no modifier.
std::string BuiltInSourceType(const BuiltInType& type, int32_t typmod);

// The name alone in pg_catalog and public, else schema.name; a part that is not lower-case letters,
// digits and _ is put in double quotes.
std::string QualifiedName(std::string_view schema_name, std::string_view name);

}  // namespace tidemark::capture::postgres
