// Whether tombstones of a polled table are found without reading all of them: those that are new by
// their stamp, once in each poll, and those of a key, for each row and each tombstone that is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/source_factory.h"

namespace tidemark::capture::poll {

struct TombstoneTable {
  std::string schema;
  std::string table;
  uint32_t oid = 0;
  std::string cursor;
  // In the order of the polled table's key.
  std::vector<std::string> key;
};

// Warnings with the CREATE INDEX. `indexes`: the columns of each, in its order; `polled`: whose
// deletes they are, for people. Pure.
std::vector<Finding> MissingTombstoneIndexes(const TombstoneTable& tombstones,
                                             const std::vector<std::vector<std::string>>& indexes,
                                             const std::string& polled);

// The same by what the catalog says, behind a warning with the ALTER TABLE for each column of the
// key that is of another type than the polled table's, to which it is cast: no index finds it by
// that. `polled_oid` and `polled_key`, in the same order, are of that table. Errors are those of
// the connection.
absl::StatusOr<std::vector<Finding>> LookAtTombstoneIndexes(
    postgres::Connection* sql, const TombstoneTable& tombstones, uint32_t polled_oid,
    const std::vector<std::string>& polled_key, const std::string& polled, absl::Time deadline);

}  // namespace tidemark::capture::poll
