#include "capture/postgres/partition_tree.h"

#include <fmt/format.h>

namespace tidemark::capture::postgres {
namespace {

constexpr int kVersion14 = 140000;

}  // namespace

std::string WithParts(int server_version, std::string_view roots) {
  // One that is on its way out by DETACH CONCURRENTLY is a partition no more.
  const std::string_view attached =
      server_version >= kVersion14 ? " AND NOT i.inhdetachpending" : "";
  return fmt::format(
      "WITH RECURSIVE parts(root, part, attached) AS ("
      "SELECT r.oid, i.inhrelid, i.xmin::text FROM pg_class r JOIN pg_inherits i ON"
      " i.inhparent = r.oid WHERE r.relkind = 'p' AND ({0}){1}"
      " UNION ALL SELECT p.root, i.inhrelid, i.xmin::text FROM parts p JOIN pg_inherits i ON"
      " i.inhparent = p.part WHERE true{1})",
      roots, attached);
}

absl::StatusOr<std::vector<uint32_t>> ReadHeldParts(Connection* sql, uint32_t table_oid,
                                                    absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format("SELECT relid::oid FROM pg_partition_tree({}) WHERE level > 0 ORDER BY 1",
                  table_oid),
      "looking at the partitions that were read", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<uint32_t> parts;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    parts.push_back(static_cast<uint32_t>(rows->Number(row, 0)));
  }
  return parts;
}

}  // namespace tidemark::capture::postgres
