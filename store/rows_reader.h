// Scans the current rows of one feed at one commit boundary, in order of table and key.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/position.h"

namespace tidemark::store {

// One current row; views are valid until the next call of Next.
struct StoredRow {
  uint64_t schema_id = 0;
  // The (position, sequence) that wrote it.
  Position position;
  uint64_t sequence = 0;
  // Serialized `values` fields of a tidemark.v1.Row.
  std::string_view values;
  // The replica identity (identity_key.h), from a reader of one table; empty from one of all.
  std::string_view key;
};

// Owned by one thread at a time; pins the files of its view, so keep it no longer than a bootstrap
// reads.
class RowsReader {
 public:
  virtual ~RowsReader() = default;

  // The rows are those after every transaction at or before this boundary, and before any other.
  virtual const Position& boundary() const = 0;

  // Moves to the next row; false at the end.
  virtual absl::StatusOr<bool> Next(StoredRow* row) = 0;
};

}  // namespace tidemark::store
