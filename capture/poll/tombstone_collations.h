// Whether the text keys of tombstones are compared and sorted as those of the polled table are.
//
// PostgreSQL refuses to compare text of two collations, but only once it has rows of both. Where
// one of them is the database's default it takes the other for both; tombstones are sorted by their
// own all the same, and merged with the rows by the other, so that some would be passed over where
// a page ends between two of one stamp. One that is the default by another name sorts alike, but
// indexes are looked for by the name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/poll/postgres_page_sql.h"
#include "capture/poll/tombstone_indexes.h"
#include "capture/postgres/connection.h"
#include "capture/source_factory.h"

namespace tidemark::capture::poll {

// Errors and warnings with the ALTER TABLE. `polled`: the table whose rows they bury, by its OID
// and for people. Errors of the call are those of the connection. REQUIRES: both tables may be
// read, and `sql.tombstones` is there.
absl::StatusOr<std::vector<Finding>> LookAtTombstoneCollations(
    postgres::Connection* session, const PageSql& sql, const TombstoneTable& tombstones,
    uint32_t polled_oid, const std::string& polled, absl::Time deadline);

}  // namespace tidemark::capture::poll
