#include "capture/postgres/table_sighting.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "capture/postgres/partition_tree.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/sql_text.h"

namespace tidemark::capture::postgres {
namespace {

// {0} parts, {1} the tables, {2} those whose generated columns are sent.
constexpr char kColumnsSql[] =
    "{0} SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.atthasmissing OR"
    " EXISTS (SELECT FROM parts t JOIN pg_attribute p ON p.attrelid = t.part AND p.attname ="
    " a.attname AND NOT p.attisdropped AND p.atthasmissing WHERE t.root = a.attrelid)"
    ", a.xmin::text FROM pg_attribute a WHERE a.attrelid IN ({1}) AND a.attnum > 0 AND NOT"
    " a.attisdropped AND (a.attgenerated = '' OR a.attgenerated = 's' AND a.attrelid IN ({2}))"
    " ORDER BY a.attrelid, a.attnum";
// {0} parts, {1} the tables. A table is its own only part. A partition that was attached anew is
// one that nobody looked at while it was on its own.
constexpr char kFilesSql[] =
    "{0} SELECT p.root, p.part, c.relfilenode, p.attached FROM (SELECT root, part, ':' || attached"
    " FROM parts UNION ALL SELECT r.oid, r.oid, '' FROM pg_class r WHERE r.oid IN ({1}) AND"
    " r.relkind <> 'p') p(root, part, attached) JOIN pg_class c ON c.oid = p.part"
    " ORDER BY p.root, p.part";
constexpr char kKeysSql[] =
    "SELECT i.indrelid, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
    " CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)"
    " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
    " WHERE i.indrelid IN ({}) AND k.place <= i.indnkeyatts AND CASE c.relreplident WHEN 'i' THEN "
    "i.indisreplident WHEN 'n' THEN false ELSE i.indisprimary END ORDER BY i.indrelid, k.place";

using FactsByOid = absl::flat_hash_map<uint64_t, v1::PostgresTableFacts*>;

// OIDs for SQL.
struct OidLists {
  std::string all;
  std::string with_generated = "0";
  std::string parts;
};

absl::Status AddColumns(Connection* sql, const OidLists& oids, absl::Time deadline,
                        const FactsByOid& facts) {
  absl::StatusOr<ResultRows> rows =
      sql->QueryAgain(fmt::format(kColumnsSql, oids.parts, oids.all, oids.with_generated),
                      "looking at the tables' columns", deadline);
  if (!rows.ok()) return rows.status();
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    v1::PostgresColumnFacts* column = facts.at(rows->Number(row, 0))->add_columns();
    column->set_number(static_cast<uint32_t>(rows->Number(row, 1)));
    column->set_name(rows->Text(row, 2));
    column->set_type_oid(static_cast<uint32_t>(rows->Number(row, 3)));
    column->set_typmod(rows->Text(row, 4));
    column->set_has_missing(rows->True(row, 5));
    column->set_xmin(rows->Text(row, 6));
  }
  return absl::OkStatus();
}

absl::Status AddFilesAndKeys(Connection* sql, const OidLists& oids, absl::Time deadline,
                             const FactsByOid& facts) {
  absl::StatusOr<ResultRows> files = sql->QueryAgain(fmt::format(kFilesSql, oids.parts, oids.all),
                                                     "looking at the tables' files", deadline);
  if (!files.ok()) return files.status();
  for (size_t row = 0; row < files->rows.size(); ++row) {
    facts.at(files->Number(row, 0))
        ->add_files(
            fmt::format("{}:{}{}", files->Text(row, 1), files->Text(row, 2), files->Text(row, 3)));
  }
  absl::StatusOr<ResultRows> keys =
      sql->QueryAgain(fmt::format(kKeysSql, oids.all), "looking at the tables' keys", deadline);
  if (!keys.ok()) return keys.status();
  for (size_t row = 0; row < keys->rows.size(); ++row) {
    facts.at(keys->Number(row, 0))->add_key_columns(keys->Text(row, 1));
  }
  return absl::OkStatus();
}

absl::Status AddFacts(Connection* sql, absl::Time deadline, std::vector<TableSighting>* tables) {
  if (tables->empty()) return absl::OkStatus();
  OidLists oids;
  FactsByOid facts;
  for (TableSighting& sighting : *tables) {
    const SourceTable& table = sighting.table;
    oids.all += fmt::format("{}{}", oids.all.empty() ? "" : ",", table.oid);
    if (table.MaySendGenerated()) oids.with_generated += fmt::format(",{}", table.oid);
    facts[table.oid] = &sighting.facts;
    sighting.facts.set_oid(table.oid);
    sighting.facts.set_partitioned(table.partitioned);
    sighting.facts.set_named_xmin(table.named_xmin);
    sighting.facts.set_replica_identity(std::string(1, table.replica_identity));
  }
  oids.parts = WithParts(sql->server_version(), fmt::format("r.oid IN ({})", oids.all));
  if (absl::Status status = AddColumns(sql, oids, deadline, facts); !status.ok()) return status;
  return AddFilesAndKeys(sql, oids, deadline, facts);
}

void AddPublication(const Publication& publication, CatalogSighting* sighting) {
  sighting->publication_exists = true;
  sighting->publishes_all = publication.all_operations;
  sighting->via_root = publication.via_root;
  for (TableSighting& seen : sighting->tables) {
    const auto published =
        std::find_if(publication.tables.begin(), publication.tables.end(),
                     [&](const SourceTable& table) { return table.oid == seen.table.oid; });
    if (published == publication.tables.end()) continue;
    seen.table = *published;
    seen.facts.set_published(true);
    seen.facts.mutable_published_columns()->Add(published->columns.begin(),
                                                published->columns.end());
    seen.facts.set_published_by(published->published_by);
  }
}

absl::StatusOr<CatalogSighting> Look(Connection* sql, const std::string& publication,
                                     std::span<const TablePattern> patterns, absl::Time deadline) {
  CatalogSighting sighting;
  absl::StatusOr<Lsn> at = ReadFlushed(sql, deadline);
  if (!at.ok()) return at.status();
  sighting.at = *at;
  absl::StatusOr<std::vector<SourceTable>> tables = ReadMatchingTables(sql, patterns, deadline);
  if (!tables.ok()) return tables.status();
  for (SourceTable& table : *tables) sighting.tables.push_back({std::move(table), {}});
  absl::StatusOr<std::vector<UnloggedRelation>> unlogged = ReadUnlogged(sql, patterns, deadline);
  if (!unlogged.ok()) return unlogged.status();
  sighting.unlogged = *std::move(unlogged);
  absl::StatusOr<std::optional<Publication>> published =
      ReadPublication(sql, publication, deadline);
  if (!published.ok()) return published.status();
  if (*published) AddPublication(**published, &sighting);
  if (absl::Status status = AddFacts(sql, deadline, &sighting.tables); !status.ok()) return status;
  // A snapshot ends behind the newest transaction that has ended; others have begun behind that.
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format(
          "SELECT pg_snapshot_xmax(s), age(pg_snapshot_xmax(s)::xid), NOT pg_is_in_recovery() AND "
          "(SELECT NOT puballtables AND pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE "
          "pubname = {}), pg_is_in_recovery() FROM pg_current_snapshot() s",
          QuoteLiteral(publication)),
      "looking at the publication", deadline);
  if (!rows.ok()) return rows.status();
  sighting.xmax = rows->Number(0, 0) + rows->Number(0, 1);
  sighting.publication_is_ours = rows->True(0, 2);
  sighting.standby = rows->True(0, 3);
  return sighting;
}

}  // namespace

absl::StatusOr<CatalogSighting> LookAtTables(Connection* sql, const std::string& publication,
                                             std::span<const TablePattern> patterns,
                                             absl::Time deadline) {
  // One snapshot: a column as it was before a rewrite, and the file behind it, would together be no
  // movement, at this look and at the next one.
  constexpr char kDoing[] = "looking at the tables";
  absl::Status begun =
      sql->Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", kDoing, deadline).status();
  if (!begun.ok()) return begun;
  absl::StatusOr<CatalogSighting> sighting = Look(sql, publication, patterns, deadline);
  if (!sighting.ok()) return sighting;
  absl::Status ended = sql->Query("COMMIT", kDoing, deadline).status();
  if (!ended.ok()) return ended;
  return sighting;
}

}  // namespace tidemark::capture::postgres
