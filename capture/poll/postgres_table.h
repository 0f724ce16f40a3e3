// What the catalog of a PostgreSQL says of a table that is polled, and whether it can be.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/postgres_page_sql.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/relation_cache.h"
#include "capture/source_factory.h"

namespace tidemark::capture::poll {

struct PostgresTable {
  PolledShape shape;
  postgres::Relation relation;
  PageSql sql;
  absl::Duration cursor_unit;
  // Of all that the catalog says and that this depends on, but for the types.
  std::string fingerprint;
};

// Everything that is wrong with a table, in the order in which it is to be mended, then what is
// only slow or coarse.
struct TableLook {
  // REQUIRES: no finding is an error.
  PostgresTable table;
  std::vector<Finding> findings;
};

// Empty: the table is gone. Errors are those of the connection. REQUIRES: a transaction is open,
// which holds the table.
absl::StatusOr<std::string> ReadFingerprint(postgres::Connection* sql,
                                            const TableSettings& settings, absl::Time deadline);
absl::StatusOr<TableLook> LookAtTable(postgres::Connection* sql, const TableSettings& settings,
                                      const PollSettings& poll, absl::Time deadline);

// The first error among the findings, as the reason why a table is not polled. Pure.
absl::Status RefusalOf(const std::vector<Finding>& findings);

}  // namespace tidemark::capture::poll
