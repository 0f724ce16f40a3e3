#include "capture/postgres/table_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// The types asked for, and all that they are made of. A type that is in the catalog of built-in
// types may come along; TypeCatalog::Add leaves it as it is.
constexpr char kTypesQuery[] =
    "WITH RECURSIVE needed(oid) AS ("
    " SELECT unnest('{{{0}}}'::oid[])"
    " UNION SELECT r.oid FROM needed JOIN pg_type t ON t.oid = needed.oid CROSS JOIN LATERAL ("
    "  SELECT t.typelem WHERE t.typelem <> 0"
    "  UNION ALL SELECT t.typbasetype WHERE t.typbasetype <> 0"
    "  UNION ALL SELECT a.atttypid FROM pg_attribute a WHERE t.typtype = 'c'"
    "   AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) r(oid))"
    " SELECT t.oid, n.nspname, t.typname, CASE WHEN t.typsubscript = "
    "'pg_catalog.array_subscript_handler'::regproc THEN 'A' ELSE t.typtype END, t.typelem,"
    " t.typdelim, t.typbasetype, t.typtypmod"
    " FROM needed JOIN pg_type t ON t.oid = needed.oid JOIN pg_namespace n ON n.oid = "
    "t.typnamespace ORDER BY t.oid";
constexpr char kFieldsQuery[] =
    "SELECT t.oid, a.attname, a.atttypid, a.atttypmod FROM pg_type t JOIN pg_attribute a ON "
    "a.attrelid = t.typrelid WHERE t.typtype = 'c' AND t.oid IN ({0}) AND a.attnum > 0 AND NOT "
    "a.attisdropped ORDER BY t.oid, a.attnum";
// Whether the database has a default order beside those that initdb gave it, whose OIDs are below
// FirstNormalObjectId (access/transam.h of PostgreSQL).
constexpr char kHasOrdersQuery[] =
    "EXISTS (SELECT 1 FROM pg_opclass k JOIN pg_am m ON m.oid = k.opcmethod AND m.amname = 'btree'"
    " WHERE k.opcdefault AND k.oid >= 16384)";
// Of each type: those of its default order, through domains.
constexpr char kOperatorsQuery[] =
    "SELECT asked.oid, (WITH RECURSIVE base(oid) AS (SELECT asked.oid UNION ALL SELECT"
    "   t.typbasetype FROM base JOIN pg_type t ON t.oid = base.oid WHERE t.typtype = 'd')"
    " SELECT string_agg(format('OPERATOR(%I.%s)', n.nspname, p.oprname), E'\\n' ORDER BY"
    "   o.amopstrategy) FROM base JOIN pg_opclass k ON k.opcintype = base.oid AND k.opcdefault"
    "  JOIN pg_am m ON m.oid = k.opcmethod AND m.amname = 'btree'"
    "  JOIN pg_amop o ON o.amopfamily = k.opcfamily AND o.amoplefttype = base.oid AND"
    "   o.amoprighttype = base.oid AND o.amopstrategy IN (3, 4, 5)"
    "  JOIN pg_operator p ON p.oid = o.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace"
    " WHERE n.nspname <> 'pg_catalog') FROM unnest('{{{}}}'::oid[]) asked(oid)";
constexpr int kVersion14 = 140000;

TypeKind KindOf(const std::string& code) {
  switch (code.empty() ? 'b' : code[0]) {
    case 'A':
      return TypeKind::kArray;
    case 'd':
      return TypeKind::kDomain;
    case 'e':
      return TypeKind::kEnum;
    case 'c':
      return TypeKind::kComposite;
    case 'r':
      return TypeKind::kRange;
    case 'm':
      return TypeKind::kMultirange;
    default:
      return TypeKind::kBase;
  }
}

int32_t Typmod(const std::string& text) {
  return static_cast<int32_t>(strtol(text.c_str(), nullptr, 10));
}

TypeInfo TypeOf(const ResultRows& rows, size_t row) {
  TypeInfo type;
  type.oid = static_cast<uint32_t>(rows.Number(row, 0));
  type.schema_name = rows.Text(row, 1);
  type.name = rows.Text(row, 2);
  type.kind = KindOf(rows.Text(row, 3));
  type.element_oid = static_cast<uint32_t>(rows.Number(row, 4));
  if (!rows.Text(row, 5).empty()) type.delimiter = rows.Text(row, 5)[0];
  type.base_oid = static_cast<uint32_t>(rows.Number(row, 6));
  type.base_typmod = Typmod(rows.Text(row, 7));
  return type;
}

// Before 14 an array is told by the length of its values: variable, with an element.
std::string TypesSql(std::span<const uint32_t> oids, int version) {
  std::string sql = fmt::format(kTypesQuery, fmt::join(oids, ","));
  if (version >= kVersion14) return sql;
  constexpr std::string_view kSince14 =
      "t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc";
  sql.replace(sql.find(kSince14), kSince14.size(), "t.typelem <> 0 AND t.typlen = -1");
  return sql;
}

using OperatorsOfTypes = absl::flat_hash_map<uint32_t, std::vector<std::string>>;

// By type and not by column: `columns` may have got another one since.
absl::StatusOr<OperatorsOfTypes> ReadOperators(Connection* sql, const ResultRows& columns,
                                               absl::Time deadline) {
  std::vector<std::string> types;
  for (size_t row = 0; row < columns.rows.size(); ++row) types.push_back(columns.Text(row, 1));
  absl::StatusOr<ResultRows> rows = sql->Query(fmt::format(kOperatorsQuery, fmt::join(types, ",")),
                                               "reading the order of the columns' types", deadline);
  if (!rows.ok()) return rows.status();
  OperatorsOfTypes operators;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    operators[static_cast<uint32_t>(rows->Number(row, 0))] =
        absl::StrSplit(rows->Text(row, 1), '\n', absl::SkipEmpty());
  }
  return operators;
}

}  // namespace

absl::Status LoadTypes(Connection* sql, std::span<const uint32_t> oids, TypeCatalog* catalog,
                       absl::Time deadline) {
  if (oids.empty()) return absl::OkStatus();
  absl::StatusOr<ResultRows> rows =
      sql->Query(TypesSql(oids, sql->server_version()), "reading the types", deadline);
  if (!rows.ok()) return rows.status();
  absl::flat_hash_map<uint32_t, TypeInfo> types;
  std::vector<uint32_t> composites;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    TypeInfo type = TypeOf(*rows, row);
    if (type.kind == TypeKind::kComposite) composites.push_back(type.oid);
    types.emplace(type.oid, std::move(type));
  }
  if (!composites.empty()) {
    absl::StatusOr<ResultRows> fields =
        sql->Query(fmt::format(kFieldsQuery, fmt::join(composites, ",")),
                   "reading the attributes of types", deadline);
    if (!fields.ok()) return fields.status();
    for (size_t row = 0; row < fields->rows.size(); ++row) {
      types[static_cast<uint32_t>(fields->Number(row, 0))].fields.push_back(
          {fields->Text(row, 1), static_cast<uint32_t>(fields->Number(row, 2)),
           Typmod(fields->Text(row, 3))});
    }
  }
  for (auto& [oid, type] : types) catalog->Add(std::move(type));
  return absl::OkStatus();
}

absl::StatusOr<KeyOrders> ReadKeyOrders(Connection* sql, uint32_t table_oid, absl::Time deadline) {
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format("SELECT i.indisprimary, i.indisreplident, a.attname FROM pg_class c"
                  " LEFT JOIN (pg_index i"
                  "  CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)"
                  "  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum)"
                  " ON i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)"
                  " AND k.place <= i.indnkeyatts WHERE c.oid = {} ORDER BY i.indexrelid, k.place",
                  table_oid),
      "reading the table's keys", deadline);
  if (!rows.ok()) return rows.status();
  KeyOrders orders;
  orders.table_exists = !rows->empty();
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    if (rows->True(row, 0)) orders.primary_key.push_back(rows->Text(row, 2));
    if (rows->True(row, 1)) orders.identity_index.push_back(rows->Text(row, 2));
  }
  return orders;
}

absl::StatusOr<RelationDescription> DescribeTable(Connection* sql, const SourceTable& table,
                                                  absl::Time deadline) {
  // relreplident as of now: the one of `table` may be older than the lock that holds the table.
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format(
          "SELECT a.attname, a.atttypid, a.atttypmod, c.relreplident,"
          " EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = "
          "ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) AND CASE c.relreplident WHEN 'd' THEN "
          "i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END),"
          " format_type(a.atttypid, a.atttypmod), {}"
          " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.oid = {} AND "
          "a.attnum > 0 AND NOT a.attisdropped AND (a.attgenerated = ''{}) ORDER BY a.attnum",
          kHasOrdersQuery, table.oid, table.MaySendGenerated() ? " OR a.attgenerated = 's'" : ""),
      "reading the table's columns", deadline);
  if (!rows.ok()) return rows.status();
  RelationDescription description;
  description.oid = table.oid;
  description.schema_name = table.schema;
  description.table_name = table.table;
  if (rows->empty()) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceTableMissing,
                           fmt::format("table {} is gone, or has no column that can be captured; "
                                       "create it, or take it out of the feed's tables",
                                       table.Text()));
  }
  description.replica_identity = rows->Text(0, 3).empty() ? 'd' : rows->Text(0, 3)[0];
  absl::StatusOr<OperatorsOfTypes> operators =
      rows->True(0, 6) ? ReadOperators(sql, *rows, deadline) : OperatorsOfTypes();
  if (!operators.ok()) return operators.status();
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    const std::string& name = rows->Text(row, 0);
    const bool sent = table.columns.empty() || std::find(table.columns.begin(), table.columns.end(),
                                                         name) != table.columns.end();
    if (!sent) continue;
    const auto type = static_cast<uint32_t>(rows->Number(row, 1));
    description.columns.push_back({name, type, Typmod(rows->Text(row, 2)),
                                   description.replica_identity == 'f' || rows->True(row, 4),
                                   rows->Text(row, 5), (*operators)[type]});
  }
  return description;
}

}  // namespace tidemark::capture::postgres
