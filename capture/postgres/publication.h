// The publication of a feed: which tables it holds, and whether those are the tables that the feed
// is to capture.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/unlogged.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {

// A table as the catalog has it.
struct SourceTable {
  uint32_t oid = 0;
  std::string schema;
  std::string table;
  bool partitioned = false;
  // d default, n nothing, f full, i index.
  char replica_identity = 'd';
  bool has_primary_key = false;
  // By the planner's statistics; 0 where there are none.
  uint64_t rows_estimated = 0;
  // OWNER:XMIN, as in PostgresTableFacts.
  std::string named_xmin;
  // In a publication: the columns that it sends, empty for all; whether generated columns that are
  // stored are among all; the catalog's row with its row filter, 0 for none; and the rows by which
  // it is sent, as in PostgresTableFacts.
  std::vector<std::string> columns;
  bool generated_too = false;
  uint32_t filter_oid = 0;
  std::string published_by;
  // Of a root: partitions of which it would have the rows and not the changes.
  std::vector<UnloggedPart> unlogged_parts;

  std::string Text() const { return TableNameText(schema, table); }
  // Its name in a query or lock of all its rows. ONLY: children of plain inheritance are tables of
  // their own in a publication.
  std::string FromSql() const;
  // Its name where it is given to a publication. Without ONLY its children would be published
  // along, and those without an identity refuse their updates; partitions come with their root all
  // the same.
  std::string InPublicationSql() const;
  // A list may name generated columns.
  bool MaySendGenerated() const { return generated_too || !columns.empty(); }
  // Updates and deletes of a published table without an identity fail at the source.
  bool HasIdentity() const {
    return replica_identity == 'f' || replica_identity == 'i' ||
           (replica_identity == 'd' && has_primary_key);
  }
};

struct Publication {
  std::string name;
  bool via_root = false;
  // insert, update, delete and truncate are all published.
  bool all_operations = false;
  std::vector<SourceTable> tables;
};

// Permanent tables and roots of partitions outside the system's schemas that fit a pattern, by
// name.
absl::StatusOr<std::vector<SourceTable>> ReadMatchingTables(Connection* sql,
                                                            std::span<const TablePattern> patterns,
                                                            absl::Time deadline);

// Nothing when there is no publication of that name. The same tables as the view
// pg_publication_tables has, read without opening any of them: nobody's lock is waited for.
absl::StatusOr<std::optional<Publication>> ReadPublication(Connection* sql, const std::string& name,
                                                           absl::Time deadline);

// The row filter of a published table, empty for none. REQUIRES: the transaction holds the table;
// the server opens it. ABORTED when the publication was changed since `table` was read.
absl::StatusOr<std::string> ReadRowFilter(Connection* sql, const SourceTable& table,
                                          absl::Time deadline);

std::string CreatePublicationSql(const std::string& name, std::span<const SourceTable> tables);

// Every pattern that names one table must find it (R42: capitals count), and there must be
// something to capture: SOURCE_TABLE_MISSING; SOURCE_SETTING where it finds one of `unlogged`.
// Pure.
absl::Status CheckTablesExist(std::span<const TablePattern> patterns,
                              std::span<const SourceTable> tables,
                              std::span<const UnloggedRelation> unlogged);

// Before a publication is made on the user's behalf: publishing a table without an identity would
// make its updates and deletes fail. SOURCE_SETTING with the SQL. Pure.
absl::Status CheckIdentities(std::span<const SourceTable> tables);

// SOURCE_SETTING with the SQL, where a root has partitions whose changes are in no log. Pure.
absl::Status CheckLogged(const SourceTable& table);

// PUBLICATION_MISSING or SOURCE_SETTING with the SQL that mends it, when the publication leaves out
// one of `tables` or an operation. Pure.
absl::Status CheckCovers(const Publication& publication, std::span<const SourceTable> tables);

// The published tables that fit a pattern.
std::vector<SourceTable> CapturedTables(const Publication& publication,
                                        std::span<const TablePattern> patterns);

// `tables`, and those: a publication may name partitions themselves, which ReadMatchingTables
// passes over.
std::vector<SourceTable> WithPublished(std::vector<SourceTable> tables,
                                       const std::optional<Publication>& publication,
                                       std::span<const TablePattern> patterns);

bool MatchesAny(std::span<const TablePattern> patterns, std::string_view schema,
                std::string_view table);

}  // namespace tidemark::capture::postgres
