#include "capture/poll/postgres_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "capture/poll/tombstone_collations.h"
#include "capture/poll/tombstone_indexes.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_catalog.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::poll {
namespace {

using postgres::Connection;
using postgres::QuoteIdentifier;
using postgres::QuoteList;
using postgres::QuoteLiteral;
using postgres::QuoteTable;
using postgres::ResultRows;

constexpr int kVersion14 = 140000;
// A table of which nobody counted the rows yet.
constexpr uint64_t kRowsOfPage = 100;
constexpr double kBytesOfPage = 8192;

constexpr char kTableSql[] =
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {} AND"
    " c.relname = {} AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'";

constexpr char kFingerprintSql[] =
    "SELECT md5(concat_ws('|', c.oid, c.relkind, row_security_active(c.oid),"
    " has_schema_privilege(c.relnamespace, 'USAGE'), (SELECT string_agg(concat_ws(',', a.attnum,"
    " a.attname, a.atttypid, a.atttypmod, a.attcollation, a.attnotnull, a.attgenerated, "
    "has_column_privilege(c.oid,"
    " a.attnum, 'SELECT')), ';' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND"
    " a.attnum > 0 AND NOT a.attisdropped), (SELECT string_agg(concat_ws(',', i.indexrelid,"
    " i.indisvalid, i.indisunique, i.indisprimary, i.indimmediate), ';' ORDER BY i.indexrelid) FROM"
    " pg_index i WHERE i.indrelid = c.oid))) ";

// Rows are counted by the statistics of the parts, scaled to what the parts have grown to.
constexpr char kFactsSql[] =
    "SELECT c.oid, c.relkind = 'p', current_user, has_schema_privilege(c.relnamespace, 'USAGE'),"
    " row_security_active(c.oid), (SELECT sum(CASE WHEN p.reltuples > 0 AND p.relpages > 0 THEN"
    "  p.reltuples / p.relpages ELSE {} END * pg_relation_size(p.oid) / {}) FROM pg_class p WHERE"
    "  p.relkind = 'r' AND p.oid IN (SELECT c.oid UNION ALL SELECT relid FROM"
    "  pg_partition_tree(c.oid)))::bigint ";

// Types through domains.
constexpr char kColumnsSql[] =
    "SELECT a.attname, t.oid, CASE WHEN a.atttypmod < 0 THEN t.typmod ELSE a.atttypmod END,"
    " a.attnotnull OR t.filled, has_column_privilege(a.attrelid, a.attnum, 'SELECT') FROM"
    " pg_attribute a CROSS JOIN LATERAL (WITH RECURSIVE b(oid, kind, base, typmod, filled) AS ("
    "  SELECT y.oid, y.typtype, y.typbasetype, y.typtypmod, y.typnotnull FROM pg_type y WHERE y.oid"
    "   = a.atttypid"
    "  UNION ALL SELECT y.oid, y.typtype, y.typbasetype, CASE WHEN b.typmod < 0 THEN y.typtypmod"
    "   ELSE b.typmod END, b.filled OR y.typnotnull FROM b JOIN pg_type y ON y.oid = b.base WHERE"
    "   b.kind = 'd') SELECT * FROM b WHERE kind <> 'd') t"
    " WHERE a.attrelid = {} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

// The usable unique indexes, the primary key first.
constexpr char kKeysSql[] =
    "SELECT i.indisprimary, string_agg(a.attname, chr(1) ORDER BY k.place), bool_and(a.attnotnull)"
    " FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place) JOIN"
    " pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = {} AND"
    " i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS"
    " NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid, i.indisprimary ORDER BY"
    " i.indisprimary DESC, i.indexrelid";

struct Column {
  std::string name;
  uint32_t type_oid = 0;
  int32_t typmod = -1;
  bool not_null = false;
  bool readable = false;
};

std::vector<std::string> Sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

std::string TypeSql(CursorType type, int32_t typmod) {
  const bool rounded = UnitOf(type, typmod) > UnitOf(type, -1);
  return SqlName(type) + (rounded ? fmt::format("({})", typmod) : "");
}

std::string BoolSql(const Column& column) {
  constexpr uint32_t kBooleanOid = 16;
  const std::string name = "r." + QuoteIdentifier(column.name);
  return column.type_oid == kBooleanOid ? name + " IS TRUE" : name + " IS NOT NULL";
}

// One look at one table.
class Look {
 public:
  Look(Connection* sql, const TableSettings& settings, const PollSettings& poll,
       absl::Time deadline)
      : sql_(*sql), settings_(settings), poll_(poll), deadline_(deadline) {}

  absl::StatusOr<TableLook> Take() {
    absl::Status status = ReadFacts();
    if (status.ok() && oid_ != 0) status = ReadColumns();
    if (status.ok() && oid_ != 0 && !HasErrors()) status = ReadKey();
    if (status.ok() && oid_ != 0 && !HasErrors()) status = Describe();
    if (status.ok() && oid_ != 0 && !HasErrors()) status = LookAtTombstones();
    if (status.ok() && oid_ != 0 && !HasErrors()) status = CheckIndex();
    if (!status.ok()) return status;
    return std::move(look_);
  }

 private:
  void Add(Finding::Severity severity, std::string_view reason, std::string message,
           std::string remedy) {
    look_.findings.push_back(
        {severity, std::string(reason), std::move(message), std::move(remedy)});
  }
  void Fail(std::string_view reason, std::string message, std::string remedy) {
    Add(Finding::Severity::kError, reason, std::move(message), std::move(remedy));
  }
  void Warn(std::string_view reason, std::string message, std::string remedy) {
    Add(Finding::Severity::kWarning, reason, std::move(message), std::move(remedy));
  }
  bool HasErrors() const { return !RefusalOf(look_.findings).ok(); }
  std::string Name() const { return QuoteTable(settings_.schema, settings_.table); }
  absl::StatusOr<ResultRows> Ask(const std::string& sql) {
    return sql_.Query(sql, fmt::format("looking at table {}", settings_.Text()), deadline_);
  }
  const Column* Find(const std::vector<Column>& columns, const std::string& name) const {
    for (const Column& column : columns) {
      if (column.name == name) return &column;
    }
    return nullptr;
  }

  absl::Status ReadFacts();
  absl::StatusOr<std::vector<Column>> ColumnsOf(uint32_t oid);
  absl::Status ReadColumns();
  void CheckPrivileges();
  void CheckCursor(const Column& cursor);
  absl::Status ReadKey();
  absl::Status Describe();
  void CheckTombstoneStamp(const Column& stamp);
  absl::Status LookAtTombstones();
  absl::Status CheckIndex();

  Connection& sql_;
  const TableSettings& settings_;
  const PollSettings& poll_;
  const absl::Time deadline_;
  TableLook look_;
  uint32_t oid_ = 0;
  bool partitioned_ = false;
  std::string role_;
  std::vector<Column> columns_;
  std::vector<std::string> key_;
};

absl::Status Look::ReadFacts() {
  absl::StatusOr<ResultRows> rows =
      Ask(fmt::format(kFactsSql, kRowsOfPage, kBytesOfPage) +
          fmt::format(kTableSql, QuoteLiteral(settings_.schema), QuoteLiteral(settings_.table)));
  if (!rows.ok()) return rows.status();
  if (rows->empty()) {
    Fail(reason::kSourceTableMissing,
         fmt::format("there is no table {} in the database", settings_.Text()),
         "create it, or take it out of the tables of the feed");
    return absl::OkStatus();
  }
  oid_ = static_cast<uint32_t>(rows->Number(0, 0));
  partitioned_ = rows->True(0, 1);
  role_ = rows->Text(0, 2);
  look_.table.shape.table_oid = oid_;
  look_.table.shape.rows_estimated = rows->Number(0, 5);
  if (!rows->True(0, 3)) {
    Fail(reason::kSourcePrivilege,
         fmt::format("role {} may not use schema {}", role_, settings_.schema),
         fmt::format("GRANT USAGE ON SCHEMA {} TO {};", QuoteIdentifier(settings_.schema),
                     QuoteIdentifier(role_)));
  }
  if (rows->True(0, 4)) {
    Fail(reason::kSourcePrivilege,
         fmt::format("row level security would show role {} only some rows of table {}", role_,
                     settings_.Text()),
         fmt::format("ALTER ROLE {} BYPASSRLS; -- as a superuser; it still reads nothing that is "
                     "not granted to it",
                     QuoteIdentifier(role_)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Column>> Look::ColumnsOf(uint32_t oid) {
  absl::StatusOr<ResultRows> rows = Ask(fmt::format(kColumnsSql, oid));
  if (!rows.ok()) return rows.status();
  std::vector<Column> columns;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    columns.push_back({rows->Text(row, 0), static_cast<uint32_t>(rows->Number(row, 1)),
                       static_cast<int32_t>(strtol(rows->Text(row, 2).c_str(), nullptr, 10)),
                       rows->True(row, 3), rows->True(row, 4)});
  }
  return columns;
}

absl::Status Look::ReadColumns() {
  absl::StatusOr<std::vector<Column>> columns = ColumnsOf(oid_);
  if (!columns.ok()) return columns.status();
  columns_ = *std::move(columns);
  CheckPrivileges();
  if (const Column* cursor = Find(columns_, settings_.cursor); cursor != nullptr) {
    CheckCursor(*cursor);
  } else {
    Fail(reason::kCursorColumnUnusable,
         fmt::format("table {} has no column {}, which is to be its cursor", settings_.Text(),
                     settings_.cursor),
         "name a column that rises with every write");
  }
  if (settings_.deleted.empty()) return absl::OkStatus();
  if (const Column* deleted = Find(columns_, settings_.deleted); deleted != nullptr) {
    look_.table.sql.deleted = BoolSql(*deleted);
  } else {
    Fail(reason::kCursorColumnUnusable,
         fmt::format("table {} has no column {}, which is to mark deleted rows", settings_.Text(),
                     settings_.deleted),
         "name the column, or leave `deleted` out");
  }
  return absl::OkStatus();
}

// Changes carry every column, so that every one has to be read; grants of columns do.
void Look::CheckPrivileges() {
  std::vector<std::string> unreadable;
  for (const Column& column : columns_) {
    if (!column.readable) unreadable.push_back(column.name);
  }
  if (unreadable.empty()) return;
  const bool all = unreadable.size() == columns_.size();
  Fail(reason::kSourcePrivilege,
       all ? fmt::format("role {} may not read table {}", role_, settings_.Text())
           : fmt::format("role {} may not read column {} of table {}", role_, unreadable.front(),
                         settings_.Text()),
       all ? fmt::format("GRANT SELECT ON {} TO {};", Name(), QuoteIdentifier(role_))
           : fmt::format("GRANT SELECT ({}) ON {} TO {};", QuoteList(unreadable), Name(),
                         QuoteIdentifier(role_)));
}

void Look::CheckCursor(const Column& cursor) {
  const std::optional<CursorType> type = CursorTypeOf(cursor.type_oid);
  if (!type) {
    Fail(reason::kCursorColumnUnusable,
         fmt::format("column {} of table {} cannot be a cursor: its type is none of date, "
                     "timestamp, timestamptz, smallint, integer, bigint and numeric",
                     cursor.name, settings_.Text()),
         "name a column of such a type that rises with every write; never one that counts from the "
         "start of a process or machine");
    return;
  }
  PostgresTable& table = look_.table;
  table.sql.cursor = QuoteIdentifier(cursor.name);
  table.sql.cursor_type = *type;
  table.sql.numeric_infinity = sql_.server_version() >= kVersion14;
  table.cursor_unit = UnitOf(*type, cursor.typmod);
  table.shape.cursor_type = SqlName(*type);
  table.shape.cursor_kind = KindOf(*type);
  table.shape.cursor_nullable = !cursor.not_null;
  table.shape.has_poison = KindOf(*type) == CursorKind::kTime || *type == CursorType::kNumeric;
  if (KindOf(*type) == CursorKind::kTime && table.cursor_unit > absl::Microseconds(1)) {
    Warn(
        reason::kCursorColumnUnusable,
        fmt::format("column {} of table {} is coarser than writes come ({}): rows of one value are "
                    "told apart by the key, and at least {} before the bound are read again by "
                    "each poll",
                    cursor.name, settings_.Text(), absl::FormatDuration(table.cursor_unit),
                    absl::FormatDuration(std::max(poll_.overlap, table.cursor_unit))),
        "");
  }
}

absl::Status Look::ReadKey() {
  absl::StatusOr<ResultRows> rows = Ask(fmt::format(kKeysSql, oid_));
  if (!rows.ok()) return rows.status();
  bool nullable = false;
  for (size_t row = 0; row < rows->rows.size() && key_.empty(); ++row) {
    std::vector<std::string> names = absl::StrSplit(rows->Text(row, 1), '\x01');
    const bool fits =
        settings_.key.empty() ? rows->True(row, 0) : Sorted(names) == Sorted(settings_.key);
    if (!fits) continue;
    nullable = !rows->True(row, 2);
    if (!nullable) key_ = std::move(names);
  }
  if (!key_.empty()) return absl::OkStatus();
  const std::string columns = settings_.key.empty() ? "..." : QuoteList(settings_.key);
  if (nullable) {
    Fail(reason::kTableUnreadable,
         fmt::format("the key of table {} may hold NULL, and its rows cannot be told apart then",
                     settings_.Text()),
         fmt::format("ALTER TABLE {} ALTER COLUMN {} SET NOT NULL;", Name(),
                     QuoteIdentifier(settings_.key.front())));
  } else if (settings_.key.empty()) {
    Fail(
        reason::kTableUnreadable,
        fmt::format("table {} has no primary key, and its rows cannot be told apart: a cursor "
                    "alone is no tiebreak",
                    settings_.Text()),
        fmt::format("ALTER TABLE {} ADD PRIMARY KEY ({}); -- or name the columns of a unique index "
                    "without NULLs as `key`",
                    Name(), columns));
  } else {
    Fail(reason::kTableUnreadable,
         fmt::format("no unique index of table {} is on exactly the columns of its key ({})",
                     settings_.Text(), columns),
         fmt::format("CREATE UNIQUE INDEX CONCURRENTLY ON {} ({});", Name(), columns));
  }
  return absl::OkStatus();
}

absl::Status Look::Describe() {
  const postgres::SourceTable source{.oid = oid_,
                                     .schema = settings_.schema,
                                     .table = settings_.table,
                                     .partitioned = partitioned_};
  absl::StatusOr<postgres::RelationDescription> description =
      postgres::DescribeTable(&sql_, source, deadline_);
  if (!description.ok()) return description.status();
  std::vector<uint32_t> oids;
  // What was there before a change is never told, whatever the log would say.
  description->replica_identity = 'd';
  for (postgres::DescribedColumn& column : description->columns) {
    column.in_identity = std::find(key_.begin(), key_.end(), column.name) != key_.end();
    oids.push_back(column.type_oid);
  }
  postgres::TypeCatalog types;
  absl::Status loaded = postgres::LoadTypes(&sql_, oids, &types, deadline_);
  if (!loaded.ok()) return loaded;
  PostgresTable& table = look_.table;
  table.relation = postgres::BuildRelation(*description, key_, {}, types);
  table.relation.description = *std::move(description);
  table.shape.schema = table.relation.schema;
  table.shape.key_columns = key_;
  table.sql.from = source.FromSql();
  for (const postgres::DescribedColumn& column : table.relation.description.columns) {
    table.sql.columns.push_back(QuoteIdentifier(column.name));
    table.sql.column_types.push_back(column.sql_type);
  }
  if (table.relation.shape.key_columns.size() != key_.size()) {
    Fail(reason::kTableUnreadable,
         fmt::format("the key of table {} holds a generated column", settings_.Text()),
         "name a unique index of other columns as `key`");
    return absl::OkStatus();
  }
  for (const uint32_t place : table.relation.shape.key_columns) {
    const postgres::DescribedColumn& column = table.relation.description.columns[place];
    table.sql.key.push_back(QuoteIdentifier(column.name));
    table.sql.key_types.push_back(column.sql_type);
    if (column.operators.empty()) continue;
    // The order of a row of columns cannot be asked for by operators of two schemas.
    Fail(reason::kTableUnreadable,
         fmt::format("key column {} of table {} is of a type with an order of its own ({})",
                     column.name, settings_.Text(), column.sql_type),
         "name a unique index of columns of other types as `key`");
  }
  return absl::OkStatus();
}

// Which of the two stamps is younger says whether a row is there.
void Look::CheckTombstoneStamp(const Column& stamp) {
  const TombstoneSettings& tombstones = *settings_.tombstones;
  const std::string name = TableNameText(tombstones.schema, tombstones.table);
  const std::string alter =
      fmt::format("ALTER TABLE {} ALTER COLUMN {} ",
                  QuoteTable(tombstones.schema, tombstones.table), QuoteIdentifier(stamp.name));
  const Column& cursor = *Find(columns_, settings_.cursor);
  const CursorType type = look_.table.sql.cursor_type;
  const absl::Duration unit = UnitOf(type, stamp.typmod);
  if (CursorTypeOf(stamp.type_oid) != type) {
    Fail(reason::kCursorColumnUnusable,
         fmt::format("the stamps of table {} are of another type than column {} of table {}, "
                     "with which they are compared",
                     name, settings_.cursor, settings_.Text()),
         alter + fmt::format("TYPE {};", TypeSql(type, cursor.typmod)));
  } else if (unit != look_.table.cursor_unit) {
    Fail(reason::kCursorColumnUnusable,
         fmt::format("the stamps of table {} are rounded to {}, and those of column {} of table {} "
                     "to {}: a row that comes back soon after its delete would be taken for gone",
                     name, absl::FormatDuration(unit), settings_.cursor, settings_.Text(),
                     absl::FormatDuration(look_.table.cursor_unit)),
         alter + fmt::format("TYPE {};", TypeSql(type, cursor.typmod)));
  } else if (!stamp.not_null) {
    Warn(reason::kCursorNull,
         fmt::format("a row of table {} whose {} is NULL deletes nothing: no poll sees it", name,
                     stamp.name),
         alter + "SET NOT NULL;");
  }
}

absl::Status Look::LookAtTombstones() {
  if (!settings_.tombstones) return absl::OkStatus();
  const TombstoneSettings& tombstones = *settings_.tombstones;
  const std::string name = TableNameText(tombstones.schema, tombstones.table);
  absl::StatusOr<ResultRows> rows =
      Ask("SELECT c.oid, c.relkind = 'p' " +
          fmt::format(kTableSql, QuoteLiteral(tombstones.schema), QuoteLiteral(tombstones.table)));
  if (!rows.ok()) return rows.status();
  if (rows->empty()) {
    Fail(reason::kSourceTableMissing,
         fmt::format("there is no table {}, which is to hold the deletes of table {}", name,
                     settings_.Text()),
         "create it, or leave `tombstones` out");
    return absl::OkStatus();
  }
  const postgres::SourceTable source{.oid = static_cast<uint32_t>(rows->Number(0, 0)),
                                     .schema = tombstones.schema,
                                     .table = tombstones.table,
                                     .partitioned = rows->True(0, 1)};
  absl::StatusOr<std::vector<Column>> columns = ColumnsOf(source.oid);
  if (!columns.ok()) return columns.status();
  PageSql::Tombstones sql{.from = source.FromSql(), .cursor = QuoteIdentifier(tombstones.cursor)};
  std::vector<std::string> needed = {tombstones.cursor};
  for (const std::string& column : key_) {
    // The configured key may name the columns in another order than the index has them.
    const auto place = std::find(settings_.key.begin(), settings_.key.end(), column);
    const size_t i =
        settings_.key.empty()
            ? static_cast<size_t>(std::find(key_.begin(), key_.end(), column) - key_.begin())
            : static_cast<size_t>(place - settings_.key.begin());
    needed.push_back(i < tombstones.key.size() ? tombstones.key[i] : column);
    sql.key.push_back(QuoteIdentifier(needed.back()));
  }
  for (const std::string& column : needed) {
    const Column* found = Find(*columns, column);
    if (found == nullptr) {
      Fail(reason::kCursorColumnUnusable, fmt::format("table {} has no column {}", name, column),
           "name its cursor and its key under `tombstones`");
    } else if (!found->readable) {
      Fail(reason::kSourcePrivilege,
           fmt::format("role {} may not read column {} of table {}", role_, column, name),
           fmt::format("GRANT SELECT ({}) ON {} TO {};", QuoteList(needed),
                       QuoteTable(tombstones.schema, tombstones.table), QuoteIdentifier(role_)));
    } else if (column == tombstones.cursor) {
      CheckTombstoneStamp(*found);
    }
  }
  look_.table.sql.tombstones = std::move(sql);
  if (HasErrors()) return absl::OkStatus();
  const TombstoneTable looked_at{.schema = tombstones.schema,
                                 .table = tombstones.table,
                                 .oid = source.oid,
                                 .cursor = tombstones.cursor,
                                 .key = {needed.begin() + 1, needed.end()}};
  absl::StatusOr<std::vector<Finding>> found = LookAtTombstoneCollations(
      &sql_, look_.table.sql, looked_at, oid_, settings_.Text(), deadline_);
  if (!found.ok()) return found.status();
  look_.findings.insert(look_.findings.end(), found->begin(), found->end());
  found = LookAtTombstoneIndexes(&sql_, looked_at, oid_, key_, settings_.Text(), deadline_);
  if (!found.ok()) return found.status();
  look_.findings.insert(look_.findings.end(), found->begin(), found->end());
  return absl::OkStatus();
}

absl::Status Look::CheckIndex() {
  constexpr char kBegin[] =
      "SAVEPOINT tidemark_plan; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET "
      "LOCAL enable_incremental_sort = off; SET LOCAL enable_bitmapscan = off; ";
  absl::StatusOr<ResultRows> rows = Ask(kBegin + PlanSql(look_.table.sql));
  if (!rows.ok()) return rows.status();
  absl::StatusOr<ResultRows> ended =
      Ask("ROLLBACK TO SAVEPOINT tidemark_plan; RELEASE SAVEPOINT tidemark_plan");
  if (!ended.ok()) return ended.status();
  std::vector<std::string> plan;
  for (size_t row = 0; row < rows->rows.size(); ++row) plan.push_back(rows->Text(row, 0));
  if (PlanUsesIndex(plan)) return absl::OkStatus();
  std::vector<std::string> place = {settings_.cursor};
  for (const std::string& column : key_) {
    if (column != settings_.cursor) place.push_back(column);
  }
  const std::string create =
      fmt::format("CREATE INDEX CONCURRENTLY ON {} ({});", Name(), QuoteList(place));
  const uint64_t rows_estimated = look_.table.shape.rows_estimated;
  if (rows_estimated > poll_.unindexed_rows_max) {
    Fail(reason::kCursorIndexMissing,
         fmt::format("no index of table {} has its cursor and key ({}), so that each poll would "
                     "read all of about {} rows; unindexed_rows_max is {}",
                     settings_.Text(), QuoteList(place), rows_estimated, poll_.unindexed_rows_max),
         create);
  } else {
    Warn(reason::kCursorIndexMissing,
         fmt::format("no index of table {} has its cursor and key ({}): each poll reads the whole "
                     "table",
                     settings_.Text(), QuoteList(place)),
         create);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFingerprint(Connection* sql, const TableSettings& settings,
                                            absl::Time deadline) {
  std::string both;
  const auto ask = [&](const std::string& schema, const std::string& table) {
    return sql->Query(
        kFingerprintSql + fmt::format(kTableSql, QuoteLiteral(schema), QuoteLiteral(table)),
        fmt::format("looking at table {}", TableNameText(schema, table)), deadline);
  };
  absl::StatusOr<ResultRows> rows = ask(settings.schema, settings.table);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return both;
  both = rows->Text(0, 0);
  if (!settings.tombstones) return both;
  rows = ask(settings.tombstones->schema, settings.tombstones->table);
  if (!rows.ok()) return rows.status();
  return both + (rows->empty() ? "" : rows->Text(0, 0));
}

absl::StatusOr<TableLook> LookAtTable(Connection* sql, const TableSettings& settings,
                                      const PollSettings& poll, absl::Time deadline) {
  return Look(sql, settings, poll, deadline).Take();
}

absl::Status RefusalOf(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.severity != Finding::Severity::kError) continue;
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, finding.reason,
                           finding.remedy.empty()
                               ? finding.message
                               : fmt::format("{}: {}", finding.message, finding.remedy));
  }
  return absl::OkStatus();
}

}  // namespace tidemark::capture::poll
