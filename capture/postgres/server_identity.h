// Which cluster and database it is that is asked, for sources that read tables and not the log.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

struct ServerIdentity {
  v1::PostgresIdentity identity;
  // As PostgreSQL counts: 150020.
  int version = 0;
  // A standby.
  bool in_recovery = false;
  // The server's clock when it was asked.
  absl::Time clock;
};

// Needs no privilege: what the role may not ask is left empty (system_identifier, timeline).
// Assigns no transaction id. SOURCE_VERSION_UNSUPPORTED before PostgreSQL 13.
absl::StatusOr<ServerIdentity> ReadServerIdentity(Connection* sql, absl::Time deadline);

// SOURCE_REPLACED when `present` is another cluster or another database than `stored`, as far as
// both are known. A server that was promoted, a standby of the same cluster and a new timeline are
// the same. `where` names the server. Pure.
absl::Status CheckSameServer(const v1::PostgresIdentity& stored,
                             const v1::PostgresIdentity& present, const std::string& where);

}  // namespace tidemark::capture::postgres
