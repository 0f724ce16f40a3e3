#include "capture/postgres/publication.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "capture/postgres/partition_tree.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// Partitions are captured under the name of their root.
constexpr char kTableColumns[] =
    "c.oid, n.nspname, c.relname, c.relkind = 'p', c.relreplident,"
    " EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),"
    " coalesce(e.rows, greatest(0, c.reltuples))::bigint,"
    " c.relowner || ':' || (SELECT y.xmin::text FROM pg_type y WHERE y.oid = c.reltype)";
// By the roots of parts.
constexpr char kEstimates[] =
    ", estimates(root, rows) AS (SELECT p.root, sum(greatest(0, l.reltuples)) FROM parts p JOIN"
    " pg_class l ON l.oid = p.part WHERE l.relkind <> 'p' GROUP BY p.root)";
constexpr char kTableSources[] =
    "JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN estimates e ON e.root = c.oid";

// The tables of a publication as the server itself picks them: {0} parts, {1} the name, {2} whether
// it holds the schema of table c, {3} what is told of a table, {4} more sources of that.
//   members: what it names, or what lies in its schemas, or everything
//   sent: of those, under whose name changes come. By the root of partitions, a partition of which
//   an ancestor is a member is not among them; by the partitions, a root is not.
constexpr char kPublishedSql[] =
    "{0}, publication AS (SELECT *, xmin FROM pg_publication WHERE pubname = {1}),"
    " members(oid) AS (SELECT c.oid FROM pg_class c CROSS JOIN publication u WHERE c.relkind IN"
    " ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384 AND (u.puballtables OR EXISTS"
    " (SELECT FROM pg_publication_rel r WHERE r.prpubid = u.oid AND r.prrelid = c.oid) OR {2})),"
    " sent(oid) AS (SELECT c.oid FROM members m JOIN pg_class c ON c.oid = m.oid CROSS JOIN"
    " publication u WHERE CASE WHEN NOT u.pubviaroot THEN c.relkind = 'r' WHEN u.puballtables THEN"
    " NOT c.relispartition ELSE c.oid NOT IN (SELECT part FROM parts) END UNION SELECT c.oid FROM"
    " parts p JOIN pg_class c ON c.oid = p.part CROSS JOIN publication u WHERE NOT u.pubviaroot AND"
    " c.relkind = 'r' AND c.relpersistence = 'p')"
    " SELECT {3} FROM sent JOIN pg_class c ON c.oid = sent.oid {4} CROSS JOIN publication u"
    " LEFT JOIN pg_publication_rel r ON r.prpubid = u.oid AND r.prrelid = c.oid";
constexpr int kVersion15 = 150000;
constexpr int kVersion18 = 180000;
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
  table.named_xmin = rows.Text(row, 7);
  return table;
}

std::string SqlList(std::span<const SourceTable> tables) {
  std::string list;
  for (const SourceTable& table : tables) {
    list += (list.empty() ? "" : ", ") + table.InPublicationSql();
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

absl::Status AddUnloggedParts(Connection* sql, absl::Time deadline,
                              std::vector<SourceTable>* tables) {
  std::vector<uint32_t> roots;
  for (const SourceTable& table : *tables) {
    if (table.partitioned) roots.push_back(table.oid);
  }
  absl::StatusOr<UnloggedPartsByRoot> parts = ReadUnloggedParts(sql, roots, deadline);
  if (!parts.ok()) return parts.status();
  for (SourceTable& table : *tables) {
    if (auto found = parts->find(table.oid); found != parts->end()) {
      table.unlogged_parts = std::move(found->second);
    }
  }
  return absl::OkStatus();
}

// A row for each table, or for each column of its list.
std::string PublishedSql(const std::string& publication, int version) {
  std::string in_schema = "false";
  // Behind kTableColumns: a column of the list, the row with the filter, whether stored generated
  // columns are among all, and the rows by which the table is sent.
  std::string sent =
      ", NULL, NULL, false, concat_ws(' ', u.oid || ':' || u.xmin, r.oid || ':' || r.xmin)";
  std::string sources;
  if (version >= kVersion15) {
    in_schema =
        "EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = u.oid AND s.pnnspid ="
        " c.relnamespace)";
    // Where the publication holds the schema, the list and the filter of a table count for nothing.
    sent = fmt::format(
        ", a.attname, CASE WHEN s.oid IS NULL AND r.prqual IS NOT NULL THEN r.oid END, {},"
        " concat_ws(' ', u.oid || ':' || u.xmin, r.oid || ':' || r.xmin, s.oid || ':' || s.xmin)",
        version >= kVersion18 ? "u.pubgencols = 's'" : "false");
    sources =
        " LEFT JOIN pg_publication_namespace s ON s.pnpubid = u.oid AND s.pnnspid = c.relnamespace"
        " LEFT JOIN pg_attribute a ON s.oid IS NULL AND a.attrelid = c.oid AND a.attnum ="
        " ANY(r.prattrs::int2[]) AND NOT a.attisdropped";
  }
  const std::string parts = WithParts(version, "r.oid IN (SELECT oid FROM members)") + kEstimates;
  const std::string order = version >= kVersion15 ? ", a.attnum" : "";
  return fmt::format(kPublishedSql, parts, QuoteLiteral(publication), in_schema,
                     kTableColumns + sent, kTableSources) +
         sources + " ORDER BY n.nspname, c.relname" + order;
}

absl::Status ReadTables(Connection* sql, absl::Time deadline, Publication* publication) {
  absl::StatusOr<ResultRows> rows = sql->QueryAgain(
      PublishedSql(publication->name, sql->server_version()), "reading the publication", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<SourceTable>& tables = publication->tables;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    if (tables.empty() || tables.back().oid != rows->Number(row, 0)) {
      SourceTable& table = tables.emplace_back(TableOf(*rows, row));
      table.filter_oid = static_cast<uint32_t>(rows->Number(row, 9));
      table.generated_too = rows->True(row, 10);
      table.published_by = rows->Text(row, 11);
    }
    if (!rows->IsNull(row, 8)) tables.back().columns.push_back(rows->Text(row, 8));
  }
  return AddUnloggedParts(sql, deadline, &tables);
}

}  // namespace

std::string SourceTable::FromSql() const {
  return (partitioned ? "" : "ONLY ") + QuoteTable(schema, table);
}

std::string SourceTable::InPublicationSql() const { return "ONLY " + QuoteTable(schema, table); }

bool MatchesAny(std::span<const TablePattern> patterns, std::string_view schema,
                std::string_view table) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const TablePattern& p) { return p.Matches(schema, table); });
}

absl::StatusOr<std::vector<SourceTable>> ReadMatchingTables(Connection* sql,
                                                            std::span<const TablePattern> patterns,
                                                            absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->QueryAgain(
      fmt::format("{}{} SELECT {} FROM pg_class c {} WHERE c.relkind IN ('r', 'p') AND NOT"
                  " c.relispartition AND c.relpersistence = 'p' AND n.nspname <>"
                  " 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' ORDER BY n.nspname,"
                  " c.relname",
                  WithParts(sql->server_version(), "NOT r.relispartition"), kEstimates,
                  kTableColumns, kTableSources),
      "listing the tables", deadline);
  if (!rows.ok()) return rows.status();
  std::vector<SourceTable> tables;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    if (MatchesAny(patterns, rows->Text(row, 1), rows->Text(row, 2))) {
      tables.push_back(TableOf(*rows, row));
    }
  }
  absl::Status parts = AddUnloggedParts(sql, deadline, &tables);
  if (!parts.ok()) return parts;
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

absl::StatusOr<std::string> ReadRowFilter(Connection* sql, const SourceTable& table,
                                          absl::Time deadline) {
  if (table.filter_oid == 0) return std::string();
  absl::StatusOr<ResultRows> rows =
      sql->Query(fmt::format("SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel WHERE oid"
                             " = {}",
                             table.filter_oid),
                 fmt::format("reading the row filter of table {}", table.Text()), deadline);
  if (!rows.ok()) return rows.status();
  if (!rows->empty()) return rows->Text(0, 0);
  return absl::AbortedError(
      fmt::format("the publication of table {} was changed meanwhile", table.Text()));
}

std::string CreatePublicationSql(const std::string& name, std::span<const SourceTable> tables) {
  return fmt::format("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)",
                     QuoteIdentifier(name), SqlList(tables));
}

absl::Status CheckTablesExist(std::span<const TablePattern> patterns,
                              std::span<const SourceTable> tables,
                              std::span<const UnloggedRelation> unlogged) {
  for (const TablePattern& pattern : patterns) {
    if (!pattern.exact()) continue;
    if (const UnloggedRelation* found = FindNamed(std::span(&pattern, 1), unlogged)) {
      return Refuse(reason::kSourceSetting,
                    fmt::format("{}, and its changes are in no log: it cannot be captured; {}",
                                UnloggedText(*found), UnloggedAdvice(*found)));
    }
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
  const std::string others =
      unlogged.empty()
          ? ""
          : fmt::format(" (changes of these are in no log, and cannot be captured: {})",
                        UnloggedText(unlogged));
  return Refuse(reason::kSourceTableMissing,
                fmt::format("the database has no table that fits {}{}; create one, or change the "
                            "feed's tables",
                            list, others));
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

absl::Status CheckLogged(const SourceTable& table) {
  if (table.unlogged_parts.empty()) return absl::OkStatus();
  return Refuse(
      reason::kSourceSetting,
      fmt::format("changes of partitions of {} are in no log, and cannot be captured: {}. "
                  "Run {} (or detach those partitions, or leave the table out)",
                  table.Text(), UnloggedPartsText(table.unlogged_parts),
                  UnloggedPartsRemedy(table.unlogged_parts)));
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
