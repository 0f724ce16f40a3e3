#include "capture/postgres/publication.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// Partitions are captured under the name of their root.
constexpr char kTableColumns[] =
    "c.oid, n.nspname, c.relname, c.relkind = 'p', c.relreplident,"
    " EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),"
    " (SELECT greatest(0, sum(greatest(0, l.reltuples)))::bigint FROM pg_class l WHERE l.oid = "
    "c.oid OR l.oid IN (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf))";
constexpr int kVersion15 = 150000;
constexpr size_t kListedTablesMax = 20;

SourceTable TableOf(const ResultRows& rows, size_t row) {
  SourceTable table;
  table.oid = static_cast<uint32_t>(rows.Number(row, 0));
  table.schema = rows.Text(row, 1);
  table.table = rows.Text(row, 2);
  table.partitioned = rows.True(row, 3);
  table.replica_identity = rows.Text(row, 4).empty() ? 'd' : rows.Text(row, 4)[0];
  table.has_primary_key = rows.True(row, 5);
  table.rows_estimated = rows.Number(row, 6);
  return table;
}

std::string SqlList(std::span<const SourceTable> tables) {
  std::string list;
  for (const SourceTable& table : tables) {
    list += (list.empty() ? "" : ", ") + QuoteTable(table.schema, table.table);
  }
  return list;
}

std::string TextList(std::span<const SourceTable> tables) {
  std::string list;
  for (const SourceTable& table : tables.first(std::min(tables.size(), kListedTablesMax))) {
    list += (list.empty() ? "" : ", ") + table.Text();
  }
  if (tables.size() > kListedTablesMax) {
    list += fmt::format(" and {} more", tables.size() - kListedTablesMax);
  }
  return list;
}

absl::Status Refuse(std::string_view reason, const std::string& message) {
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

absl::Status ReadTables(Connection* sql, absl::Time deadline, Publication* publication) {
  const bool lists = sql->server_version() >= kVersion15;
  // A publication that sends all columns of a table is told from one with a list by its own
  // catalog: the view names all columns for both.
  const std::string sent =
      lists ? ", (SELECT array_to_json(p.attnames) FROM pg_publication_rel r JOIN pg_publication u"
              " ON u.oid = r.prpubid WHERE u.pubname = p.pubname AND r.prrelid = c.oid"
              " AND r.prattrs IS NOT NULL), p.rowfilter"
            : ", NULL, NULL";
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format("SELECT {}{} FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = "
                  "p.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = "
                  "p.tablename WHERE p.pubname = {} ORDER BY n.nspname, c.relname",
                  kTableColumns, sent, QuoteLiteral(publication->name)),
      "reading the publication", deadline);
  if (!rows.ok()) return rows.status();
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    SourceTable table = TableOf(*rows, row);
    table.row_filter = rows->Text(row, 8);
    if (!rows->IsNull(row, 7)) {
      absl::StatusOr<ResultRows> names =
          sql->Query(fmt::format("SELECT json_array_elements_text({}::json)",
                                 QuoteLiteral(rows->Text(row, 7))),
                     "reading the publication's columns", deadline);
      if (!names.ok()) return names.status();
      for (size_t i = 0; i < names->rows.size(); ++i) table.columns.push_back(names->Text(i, 0));
    }
    publication->tables.push_back(std::move(table));
  }
  return absl::OkStatus();
}

}  // namespace

bool MatchesAny(std::span<const TablePattern> patterns, std::string_view schema,
                std::string_view table) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const TablePattern& p) { return p.Matches(schema, table); });
}

absl::StatusOr<std::vector<SourceTable>> ReadMatchingTables(Connection* sql,
                                                            std::span<const TablePattern> patterns,
                                                            absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format("SELECT {} FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                  " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
                  " AND c.relpersistence = 'p' AND n.nspname <> 'information_schema'"
                  " AND n.nspname NOT LIKE 'pg\\_%' ORDER BY n.nspname, c.relname",
                  kTableColumns),
      "listing the tables", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<SourceTable> tables;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    if (MatchesAny(patterns, rows->Text(row, 1), rows->Text(row, 2))) {
      tables.push_back(TableOf(*rows, row));
    }
  }
  // By bytes, whatever the database's collation says: the order of the snapshot.
  std::sort(tables.begin(), tables.end(), [](const SourceTable& a, const SourceTable& b) {
    return std::tie(a.schema, a.table) < std::tie(b.schema, b.table);
  });
  return tables;
}

absl::StatusOr<std::optional<Publication>> ReadPublication(Connection* sql, const std::string& name,
                                                           absl::Time deadline) {
  absl::StatusOr<ResultRows> rows =
      sql->Query(fmt::format("SELECT pubviaroot, pubinsert AND pubupdate AND pubdelete AND "
                             "pubtruncate FROM pg_publication WHERE pubname = {}",
                             QuoteLiteral(name)),
                 "reading the publication", deadline);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return std::optional<Publication>();
  Publication publication;
  publication.name = name;
  publication.via_root = rows->True(0, 0);
  publication.all_operations = rows->True(0, 1);
  if (absl::Status status = ReadTables(sql, deadline, &publication); !status.ok()) return status;
  return std::optional<Publication>(std::move(publication));
}

std::string CreatePublicationSql(const std::string& name, std::span<const SourceTable> tables) {
  return fmt::format("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)",
                     QuoteIdentifier(name), SqlList(tables));
}

absl::Status CheckTablesExist(std::span<const TablePattern> patterns,
                              std::span<const SourceTable> tables) {
  for (const TablePattern& pattern : patterns) {
    if (!pattern.exact()) continue;
    const bool found = std::any_of(tables.begin(), tables.end(), [&](const SourceTable& table) {
      return pattern.Matches(table.schema, table.table);
    });
    if (!found) {
      return Refuse(reason::kSourceTableMissing,
                    fmt::format("the database has no table {}; create it, or take it out of the "
                                "feed's tables (letters count: a name with capitals is put in "
                                "double quotes)",
                                pattern.Text()));
    }
  }
  if (!tables.empty()) return absl::OkStatus();
  std::string list;
  for (const TablePattern& pattern : patterns) {
    list += (list.empty() ? "" : ", ") + pattern.Text();
  }
  return Refuse(reason::kSourceTableMissing,
                fmt::format("the database has no table that fits {}; create one, or change the "
                            "feed's tables",
                            list));
}

absl::Status CheckIdentities(std::span<const SourceTable> tables) {
  std::vector<SourceTable> without;
  std::string sql;
  for (const SourceTable& table : tables) {
    if (table.HasIdentity()) continue;
    without.push_back(table);
    sql += fmt::format("{}ALTER TABLE {} REPLICA IDENTITY FULL;", sql.empty() ? "" : " ",
                       QuoteTable(table.schema, table.table));
  }
  if (without.empty()) return absl::OkStatus();
  return Refuse(reason::kSourceSetting,
                fmt::format("{} has no primary key and no replica identity: once it is published, "
                            "PostgreSQL refuses its updates and deletes. Add a primary key, or run "
                            "{} (or leave the table out, or make the publication yourself)",
                            TextList(without), sql));
}

absl::Status CheckCovers(const Publication& publication, std::span<const SourceTable> tables) {
  std::vector<SourceTable> missing;
  bool root_missing = false;
  for (const SourceTable& table : tables) {
    const bool covered = std::any_of(publication.tables.begin(), publication.tables.end(),
                                     [&](const SourceTable& p) { return p.oid == table.oid; });
    if (covered) continue;
    missing.push_back(table);
    root_missing |= table.partitioned && !publication.via_root;
  }
  const std::string name = QuoteIdentifier(publication.name);
  if (root_missing) {
    return Refuse(reason::kSourceSetting,
                  fmt::format("publication {} sends partitions under their own names; run ALTER "
                              "PUBLICATION {} SET (publish_via_partition_root = true)",
                              publication.name, name));
  }
  if (!missing.empty()) {
    return Refuse(reason::kPublicationMissing,
                  fmt::format("publication {} does not hold {}; run ALTER PUBLICATION {} ADD TABLE "
                              "{}, or change the feed's tables",
                              publication.name, TextList(missing), name, SqlList(missing)));
  }
  if (!publication.all_operations) {
    return Refuse(
        reason::kSourceSetting,
        fmt::format("publication {} leaves operations out; run ALTER PUBLICATION {} SET (publish = "
                    "'insert, update, delete, truncate')",
                    publication.name, name));
  }
  return absl::OkStatus();
}

std::vector<SourceTable> CapturedTables(const Publication& publication,
                                        std::span<const TablePattern> patterns) {
  std::vector<SourceTable> captured;
  for (const SourceTable& table : publication.tables) {
    if (MatchesAny(patterns, table.schema, table.table)) captured.push_back(table);
  }
  return captured;
}

std::vector<SourceTable> WithPublished(std::vector<SourceTable> tables,
                                       const std::optional<Publication>& publication,
                                       std::span<const TablePattern> patterns) {
  if (!publication) return tables;
  for (SourceTable& table : CapturedTables(*publication, patterns)) {
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace tidemark::capture::postgres
