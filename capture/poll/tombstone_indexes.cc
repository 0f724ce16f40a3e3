#include "capture/poll/tombstone_indexes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::poll {
namespace {

using postgres::QuoteIdentifier;
using postgres::QuoteList;
using postgres::QuoteLiteral;
using postgres::QuoteTable;

// Of those that hold every row, and that are entered by an order.
constexpr char kIndexesSql[] =
    "SELECT string_agg(a.attname, chr(1) ORDER BY k.place) FROM pg_index i JOIN pg_class c ON c.oid"
    " = i.indexrelid JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree' CROSS JOIN LATERAL"
    " unnest(i.indkey) WITH ORDINALITY k(attnum, place) JOIN pg_attribute a ON a.attrelid ="
    " i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = {} AND i.indisvalid AND i.indpred IS"
    " NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts GROUP BY i.indexrelid";

// Where the cast of a tombstone's column to the type of the polled one computes anything, an index
// on the column is none on the result. It does not between text and varchar, from a domain to what
// it is made of, nor to a varchar that is longer.
constexpr char kCastsSql[] =
    "SELECT x.attname, format_type(x.atttypid, x.atttypmod), r.attname, format_type(r.atttypid,"
    " r.atttypmod) FROM unnest(ARRAY[{}]::text[], ARRAY[{}]::text[]) WITH ORDINALITY"
    " k(of_tombstones, of_rows, place) JOIN pg_attribute x ON x.attrelid = {} AND x.attname ="
    " k.of_tombstones JOIN pg_attribute r ON r.attrelid = {} AND r.attname = k.of_rows JOIN pg_type"
    " t ON t.oid = x.atttypid CROSS JOIN LATERAL (SELECT coalesce(nullif(t.typbasetype, 0), t.oid)"
    " AS of_tombstones) base WHERE NOT ((r.atttypid IN (x.atttypid, base.of_tombstones) OR"
    " (r.atttypid IN ('text'::regtype, 'varchar'::regtype) AND base.of_tombstones IN"
    " ('text'::regtype, 'varchar'::regtype))) AND (r.atttypmod IN (-1, x.atttypmod) OR (r.atttypid"
    " = 'varchar'::regtype AND x.atttypmod BETWEEN 0 AND r.atttypmod))) ORDER BY k.place";

std::string LiteralList(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + QuoteLiteral(text);
  return list;
}

// Whatever their order.
bool BeginsWith(std::vector<std::string> index, std::vector<std::string> columns) {
  if (index.size() < columns.size()) return false;
  index.resize(columns.size());
  std::sort(index.begin(), index.end());
  std::sort(columns.begin(), columns.end());
  return index == columns;
}

Finding Missing(const TombstoneTable& tombstones, const std::string& message,
                const std::vector<std::string>& columns) {
  return {Finding::Severity::kWarning, std::string(reason::kCursorIndexMissing), message,
          fmt::format("CREATE INDEX CONCURRENTLY ON {} ({});",
                      QuoteTable(tombstones.schema, tombstones.table), QuoteList(columns))};
}

absl::StatusOr<std::vector<Finding>> LookAtCasts(postgres::Connection* sql,
                                                 const TombstoneTable& tombstones,
                                                 uint32_t polled_oid,
                                                 const std::vector<std::string>& polled_key,
                                                 const std::string& polled, absl::Time deadline) {
  absl::StatusOr<postgres::ResultRows> rows =
      sql->Query(fmt::format(kCastsSql, LiteralList(tombstones.key), LiteralList(polled_key),
                             tombstones.oid, polled_oid),
                 fmt::format("looking at the tombstones of table {}", polled), deadline);
  if (!rows.ok()) return rows.status();
  std::vector<Finding> findings;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    const std::string column = QuoteIdentifier(rows->Text(row, 0));
    findings.push_back(
        {Finding::Severity::kWarning, std::string(reason::kCursorIndexMissing),
         fmt::format("column {} of table {} is of type {}, and key column {} of table {} of type "
                     "{}: no index finds the tombstones of a key, and all of them are read for "
                     "each row and each tombstone that is",
                     column, TableNameText(tombstones.schema, tombstones.table), rows->Text(row, 1),
                     QuoteIdentifier(rows->Text(row, 2)), polled, rows->Text(row, 3)),
         fmt::format("ALTER TABLE {} ALTER COLUMN {} TYPE {};",
                     QuoteTable(tombstones.schema, tombstones.table), column, rows->Text(row, 3))});
  }
  return findings;
}

}  // namespace

std::vector<Finding> MissingTombstoneIndexes(const TombstoneTable& tombstones,
                                             const std::vector<std::vector<std::string>>& indexes,
                                             const std::string& polled) {
  const auto is_there = [&](const std::vector<std::string>& columns) {
    return std::any_of(indexes.begin(), indexes.end(),
                       [&](const auto& index) { return BeginsWith(index, columns); });
  };
  const std::string name = TableNameText(tombstones.schema, tombstones.table);
  std::vector<Finding> findings;
  if (!is_there({tombstones.cursor})) {
    std::vector<std::string> wanted = {tombstones.cursor};
    wanted.insert(wanted.end(), tombstones.key.begin(), tombstones.key.end());
    findings.push_back(
        Missing(tombstones,
                fmt::format("no index of table {} begins with its stamp ({}): each poll of table "
                            "{} reads all of it",
                            name, QuoteIdentifier(tombstones.cursor), polled),
                wanted));
  }
  if (!is_there(tombstones.key)) {
    std::vector<std::string> wanted = tombstones.key;
    wanted.push_back(tombstones.cursor);
    findings.push_back(
        Missing(tombstones,
                fmt::format("no index of table {} begins with the key of table {} ({}): all of it "
                            "is read for each row and each tombstone that is",
                            name, polled, QuoteList(tombstones.key)),
                wanted));
  }
  return findings;
}

absl::StatusOr<std::vector<Finding>> LookAtTombstoneIndexes(
    postgres::Connection* sql, const TombstoneTable& tombstones, uint32_t polled_oid,
    const std::vector<std::string>& polled_key, const std::string& polled, absl::Time deadline) {
  absl::StatusOr<std::vector<Finding>> findings =
      LookAtCasts(sql, tombstones, polled_oid, polled_key, polled, deadline);
  if (!findings.ok()) return findings.status();
  absl::StatusOr<postgres::ResultRows> rows =
      sql->Query(fmt::format(kIndexesSql, tombstones.oid),
                 fmt::format("looking at the tombstones of table {}", polled), deadline);
  if (!rows.ok()) return rows.status();
  std::vector<std::vector<std::string>> indexes;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    indexes.push_back(absl::StrSplit(rows->Text(row, 0), '\x01'));
  }
  for (Finding& missing : MissingTombstoneIndexes(tombstones, indexes, polled)) {
    findings->push_back(std::move(missing));
  }
  return findings;
}

}  // namespace tidemark::capture::poll
