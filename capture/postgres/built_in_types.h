// The types that PostgreSQL itself defines, with OIDs that are fixed in its sources
// (src/include/catalog/pg_type.dat) and have never changed. Constant data.
#pragma once

#include <cstdint>
#include <string_view>

#include "capture/postgres/type_catalog.h"

namespace tidemark::capture::postgres {

struct BuiltInType {
  uint32_t oid;
  // 0: there is none.
  uint32_t array_oid;
  // As format_type() prints it.
  std::string_view name;
  TextReading reading;
  char delimiter = ',';
};

// Null unless it is one. An array type is found by FindBuiltInElement.
const BuiltInType* FindBuiltIn(uint32_t oid);
// The element of a built-in array type.
const BuiltInType* FindBuiltInElement(uint32_t array_oid);

}  // namespace tidemark::capture::postgres
