// What the capturing role may not do and must: read the captured tables, and all of each. Thread
// rule: that of the session.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/publication.h"

namespace tidemark::capture::postgres {

struct MissingPrivilege {
  std::string message;
  // SQL for whoever may grant it.
  std::string remedy;
};

// Of the session's role, in the order of the tables.
absl::StatusOr<std::vector<MissingPrivilege>> ReadMissingPrivileges(
    Connection* sql, std::span<const SourceTable> tables, absl::Time deadline);

// Before anything is made: SOURCE_PRIVILEGE with the SQL, when there is a missing one.
absl::Status CheckReadable(Connection* sql, std::span<const SourceTable> tables,
                           absl::Time deadline);

}  // namespace tidemark::capture::postgres
