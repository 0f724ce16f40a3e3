// The partitions of tables, from the catalog's own rows. The server's functions for them
// (pg_partition_tree and its like) open every partition, and so wait for whoever has one locked.
// Thread rule: that of the session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"

namespace tidemark::capture::postgres {

// "WITH RECURSIVE parts(root, part, attached) AS (…)": of every partitioned table r, a row of
// pg_class, for which `roots` holds, all partitions below it, and for each a text that changes with
// each attachment. More items may follow it, and `roots` may name them.
std::string WithParts(int server_version, std::string_view roots);

// OIDs of the partitions below a table that this transaction holds, rising. As of now, whatever the
// transaction's snapshot: one that was attached since is read as well.
absl::StatusOr<std::vector<uint32_t>> ReadHeldParts(Connection* sql, uint32_t table_oid,
                                                    absl::Time deadline);

}  // namespace tidemark::capture::postgres
