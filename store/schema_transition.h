// Where a table of a feed goes from one schema to another. A plain value.
#pragma once

#include <cstdint>

#include "proto/position.h"

namespace tidemark::store {

// From the change `sequence` of the transaction at `position` on, the table has schema `after`.
struct SchemaTransition {
  Position position;
  uint64_t sequence = 0;
  uint64_t before = 0;
  uint64_t after = 0;
};

}  // namespace tidemark::store
