#include "capture/postgres/privileges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// The last column: schemas of the types of the key that may not be used. The rows of a chunk are
// asked for by literals of these types.
constexpr char kPrivilegesSql[] =
    "SELECT o.place, current_user, has_schema_privilege(c.relnamespace, 'USAGE'),"
    " has_table_privilege(c.oid, 'SELECT'), has_any_column_privilege(c.oid, 'SELECT'),"
    " row_security_active(c.oid), (SELECT string_agg(DISTINCT quote_ident(n.nspname), ', ') FROM"
    "  pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = "
    "ANY(i.indkey::int2[])"
    "  JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace"
    "  WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)"
    "  AND NOT has_schema_privilege(n.oid, 'USAGE'))"
    " FROM unnest('{{{}}}'::oid[]) WITH ORDINALITY o(oid, place) JOIN pg_class c ON c.oid = o.oid"
    " ORDER BY o.place";

class Lacks {
 public:
  explicit Lacks(std::vector<MissingPrivilege>* found) : found_(*found) {}

  void AddRow(const SourceTable& table, const ResultRows& rows, size_t row) {
    const std::string& role = rows.Text(row, 1);
    const std::string grantee = QuoteIdentifier(role);
    const std::string name = QuoteTable(table.schema, table.table);
    if (!rows.True(row, 2)) {
      Add(fmt::format("role {} may not use schema {}", role, table.schema),
          fmt::format("GRANT USAGE ON SCHEMA {} TO {};", QuoteIdentifier(table.schema), grantee));
    }
    if (!rows.True(row, 3)) {
      // Changes carry every column, and the lock that holds a table is refused without the others.
      Add(rows.True(row, 4)
              ? fmt::format("role {} may read only some columns of table {}", role, table.Text())
              : fmt::format("role {} may not read table {}", role, table.Text()),
          fmt::format("GRANT SELECT ON {} TO {};", name, grantee));
    }
    if (rows.True(row, 5)) {
      Add(fmt::format("row level security would show role {} only some rows of table {}, while its "
                      "changes come of all",
                      role, table.Text()),
          fmt::format("ALTER ROLE {} BYPASSRLS; -- as a superuser; it still reads nothing that is "
                      "not granted to it",
                      grantee));
    }
    if (!rows.IsNull(row, 6)) {
      Add(fmt::format("role {} may not use schema {}, which holds a type in the key of table {}",
                      role, rows.Text(row, 6), table.Text()),
          fmt::format("GRANT USAGE ON SCHEMA {} TO {};", rows.Text(row, 6), grantee));
    }
  }

 private:
  // A schema, or row level security, may be missing for many tables.
  void Add(std::string message, std::string remedy) {
    for (const MissingPrivilege& known : found_) {
      if (known.message == message) return;
    }
    found_.push_back({std::move(message), std::move(remedy)});
  }

  std::vector<MissingPrivilege>& found_;
};

}  // namespace

absl::StatusOr<std::vector<MissingPrivilege>> ReadMissingPrivileges(
    Connection* sql, std::span<const SourceTable> tables, absl::Time deadline) {
  std::vector<uint32_t> oids;
  for (const SourceTable& table : tables) oids.push_back(table.oid);
  absl::StatusOr<ResultRows> rows = sql->Query(fmt::format(kPrivilegesSql, fmt::join(oids, ",")),
                                               "looking at privileges", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<MissingPrivilege> missing;
  Lacks lacks(&missing);
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    lacks.AddRow(tables[rows->Number(row, 0) - 1], *rows, row);
  }
  return missing;
}

absl::Status CheckReadable(Connection* sql, std::span<const SourceTable> tables,
                           absl::Time deadline) {
  absl::StatusOr<std::vector<MissingPrivilege>> missing =
      ReadMissingPrivileges(sql, tables, deadline);
  if (!missing.ok()) return missing.status();
  if (missing->empty()) return absl::OkStatus();
  const std::string more =
      missing->size() == 1
          ? ""
          : fmt::format(" ({} more are missing: run tidemarkd --check)", missing->size() - 1);
  return ErrorWithReason(
      absl::StatusCode::kPermissionDenied, reason::kSourcePrivilege,
      fmt::format("{}; run {}{}", missing->front().message, missing->front().remedy, more));
}

}  // namespace tidemark::capture::postgres
