#include "capture/poll/tombstone_collations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

#include "capture/postgres/sql_text.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::poll {
namespace {

using postgres::QuoteIdentifier;
using postgres::QuoteLiteral;
using postgres::ResultRows;

// As pg_collation_for says it.
constexpr char kDefault[] = "\"default\"";

// Only those of the C library can be told to be the same.
constexpr char kAsDefaultSql[] =
    "SELECT count(*) FROM pg_collation c, pg_database d WHERE c.oid = {}::regcollation AND"
    " c.collprovider = 'c' AND d.datname = current_database() AND"
    " coalesce(to_jsonb(d)->>'datlocprovider', 'c') = 'c' AND"
    " lower(replace(c.collcollate, '-', '')) = lower(replace(d.datcollate, '-', ''))";

struct KeyColumn {
  size_t place = 0;
  std::string of_rows;
  std::string of_tombstones;
};

class Look {
 public:
  Look(postgres::Connection* session, const PageSql& sql, const std::string& polled,
       absl::Time deadline)
      : session_(*session), sql_(sql), polled_(polled), deadline_(deadline) {}

  // Those of text.
  absl::StatusOr<std::vector<KeyColumn>> Columns(uint32_t polled_oid) {
    absl::StatusOr<ResultRows> named =
        Ask(fmt::format("SELECT attname FROM pg_attribute WHERE attrelid = {} "
                        "AND attcollation <> 0 AND attnum > 0 AND NOT attisdropped",
                        polled_oid));
    if (!named.ok()) return named.status();
    std::vector<KeyColumn> columns;
    std::vector<std::string> asked;
    for (size_t i = 0; i < sql_.key.size(); ++i) {
      for (size_t row = 0; row < named->rows.size(); ++row) {
        if (QuoteIdentifier(named->Text(row, 0)) != sql_.key[i]) continue;
        columns.push_back({.place = i});
        asked.push_back(fmt::format("pg_collation_for(r.{}), pg_collation_for(x.{}::{})",
                                    sql_.key[i], sql_.tombstones->key[i], sql_.key_types[i]));
      }
    }
    if (columns.empty()) return columns;
    // The server says it of the expressions that are compared; no row is read.
    absl::StatusOr<ResultRows> said =
        Ask(fmt::format("SELECT {} FROM (SELECT) one LEFT JOIN {} r ON false LEFT JOIN {} x ON "
                        "false",
                        fmt::join(asked, ", "), sql_.from, sql_.tombstones->from));
    if (!said.ok()) return said.status();
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i].of_rows = said->Text(0, 2 * i);
      columns[i].of_tombstones = said->Text(0, 2 * i + 1);
    }
    return columns;
  }

  // Whether it sorts as the database's default does.
  absl::StatusOr<bool> IsAsDefault(const std::string& collation) {
    absl::StatusOr<ResultRows> same = Ask(fmt::format(kAsDefaultSql, QuoteLiteral(collation)));
    if (!same.ok()) return same.status();
    return same->Number(0, 0) > 0;
  }

 private:
  absl::StatusOr<ResultRows> Ask(const std::string& text) {
    return session_.Query(text, fmt::format("looking at the tombstones of table {}", polled_),
                          deadline_);
  }

  postgres::Connection& session_;
  const PageSql& sql_;
  const std::string& polled_;
  const absl::Time deadline_;
};

}  // namespace

absl::StatusOr<std::vector<Finding>> LookAtTombstoneCollations(
    postgres::Connection* session, const PageSql& sql, const TombstoneTable& tombstones,
    uint32_t polled_oid, const std::string& polled, absl::Time deadline) {
  Look look(session, sql, polled, deadline);
  absl::StatusOr<std::vector<KeyColumn>> columns = look.Columns(polled_oid);
  if (!columns.ok()) return columns.status();
  std::vector<Finding> findings;
  for (const KeyColumn& column : *columns) {
    if (column.of_rows == column.of_tombstones) continue;
    const bool refused = column.of_rows != kDefault && column.of_tombstones != kDefault;
    bool same = false;
    if (!refused) {
      absl::StatusOr<bool> as_default =
          look.IsAsDefault(column.of_rows == kDefault ? column.of_tombstones : column.of_rows);
      if (!as_default.ok()) return as_default.status();
      same = *as_default;
    }
    const std::string& name = tombstones.key[column.place];
    findings.push_back(
        {same ? Finding::Severity::kWarning : Finding::Severity::kError,
         std::string(same ? reason::kCursorIndexMissing : reason::kCursorColumnUnusable),
         fmt::format("column {} of table {} has collation {}, and key column {} of table {} has "
                     "{}: {}",
                     QuoteIdentifier(name), TableNameText(tombstones.schema, tombstones.table),
                     column.of_tombstones, sql.key[column.place], polled, column.of_rows,
                     refused ? "PostgreSQL does not compare them"
                     : same ? "they are sorted alike, but no index under the one finds a key under "
                              "the other, and all of a table is read for each row or tombstone"
                            : "they are sorted in two orders, and deletes would be passed over"),
         fmt::format("ALTER TABLE {} ALTER COLUMN {} TYPE {} COLLATE {};",
                     postgres::QuoteTable(tombstones.schema, tombstones.table),
                     QuoteIdentifier(name), sql.key_types[column.place], column.of_rows)});
  }
  return findings;
}

}  // namespace tidemark::capture::poll
