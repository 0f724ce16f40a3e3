#include "capture/changelog/statements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "capture/postgres/sql_text.h"

namespace tidemark::capture::changelog {

using postgres::QuoteIdentifier;
using postgres::QuoteLiteral;
using postgres::QuoteTable;

namespace {

std::string XidLiteral(uint64_t xid) { return fmt::format("'{}'::xid8", xid); }

std::string XidArray(const std::vector<uint64_t>& xids) {
  return fmt::format("'{{{}}}'::xid8[]", fmt::join(xids, ","));
}

std::string Microseconds(const std::string& time) {
  return fmt::format("CASE WHEN isfinite({0}) THEN (extract(epoch FROM {0}) * 1000000)::bigint END",
                     time);
}

}  // namespace

Statements::Statements(const Settings& settings, const OptionalColumns& columns)
    : settings_(settings),
      table_(QuoteTable(settings.schema, settings.table)),
      seq_("c." + QuoteIdentifier(settings.columns.seq)),
      xid_("c." + QuoteIdentifier(settings.columns.xid)) {
  const ColumnNames& names = settings.columns;
  const auto text = [](const std::string& name) { return "c." + QuoteIdentifier(name) + "::text"; };
  row_columns_ = fmt::format(
      "{}, {}, {}, {}, {}, {}, {}, {}, {}", xid_, seq_, text(names.schema_name),
      text(names.table_name), text(names.op), text(names.key), text(names.row),
      columns.old_row ? text(names.old_row) : "NULL",
      columns.changed_at ? Microseconds("c." + QuoteIdentifier(names.changed_at)) : "NULL");
}

// now() is the time of BEGIN, and the snapshot is that of the first statement behind it (X4).
// Whatever the server believes of the size of the table, the index is used.
std::string Statements::Begin() const {
  return fmt::format(
      "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off; "
      "SELECT pg_current_snapshot()::text, (extract(epoch FROM now()) * 1000000)::bigint, "
      "(SELECT max({}) FROM {} c), {}::regclass::oid",
      seq_, table_, QuoteLiteral(table_));
}

std::string Statements::Rows(const PullScope& scope, const std::string& columns) const {
  std::string visible;
  if (!scope.visible_in.empty()) {
    visible = fmt::format(" AND pg_visible_in_snapshot({}, {}::pg_snapshot)", xid_,
                          QuoteLiteral(scope.visible_in));
  }
  std::string range = fmt::format("SELECT {} FROM {} c WHERE {} >= {}", columns, table_, xid_,
                                  XidLiteral(scope.from_xid));
  if (scope.below_xid) range += fmt::format(" AND {} < {}", xid_, XidLiteral(*scope.below_xid));
  range += visible;
  if (scope.xids.empty()) return range;
  return fmt::format("SELECT {} FROM {} c WHERE {} = ANY ({}){} UNION ALL {}", columns, table_,
                     xid_, XidArray(scope.xids), visible, range);
}

std::string Statements::List(const PullScope& scope, uint32_t window) const {
  std::string having;
  if (scope.behind) {
    having = fmt::format(" HAVING (max(seq), xid) > ({}::bigint, {})", scope.behind->last_seq,
                         XidLiteral(scope.behind->xid));
  }
  return fmt::format(
      "DECLARE tidemark_listed NO SCROLL CURSOR FOR SELECT xid, max(seq), count(*), "
      "count(*) OVER () FROM ({}) r(xid, seq) GROUP BY xid{} ORDER BY {}; {}",
      Rows(scope, fmt::format("{}, {}", xid_, seq_)), having,
      scope.by_xid ? "xid" : "max(seq), xid", ListMore(window));
}

std::string Statements::ListMore(uint32_t window) const {
  return fmt::format("FETCH {} FROM tidemark_listed", window);
}

// Row by row of the list: the subquery with an order of its own keeps the server from reading all
// of the index to join it.
std::string Statements::WholePage(std::span<const ListedTransaction> transactions) const {
  std::vector<uint64_t> xids;
  for (const ListedTransaction& transaction : transactions) xids.push_back(transaction.xid);
  return fmt::format(
      "COPY (SELECT r.* FROM unnest({}) WITH ORDINALITY w(xid, place) CROSS JOIN LATERAL (SELECT "
      "{} FROM {} c WHERE {} = w.xid ORDER BY {}, {} OFFSET 0) r(xid, seq) ORDER BY w.place, "
      "r.seq) TO STDOUT",
      XidArray(xids), row_columns_, table_, xid_, xid_, seq_);
}

std::string Statements::PartPage(uint64_t xid, uint64_t after_seq, uint32_t rows) const {
  return fmt::format(
      "COPY (SELECT {} FROM {} c WHERE {} = {} AND {} > {} ORDER BY {}, {} LIMIT {}) TO STDOUT",
      row_columns_, table_, xid_, XidLiteral(xid), seq_, after_seq, xid_, seq_, rows);
}

std::string Statements::ExplainList() const {
  PullScope scope;
  scope.xids = {1};
  scope.from_xid = 3;
  return fmt::format("EXPLAIN (COSTS OFF) SELECT xid, max(seq) FROM ({}) r(xid, seq) GROUP BY xid",
                     Rows(scope, fmt::format("{}, {}", xid_, seq_)));
}

std::string Statements::ExplainPage() const {
  return fmt::format(
      "EXPLAIN (COSTS OFF) SELECT {} FROM {} c WHERE {} = {} AND {} > 0 ORDER BY {}, {} LIMIT 1",
      row_columns_, table_, xid_, XidLiteral(3), seq_, xid_, seq_);
}

std::string Statements::NamedTable() const {
  return fmt::format(
      "pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace AND "
      "n.nspname = {} AND t.relname = {} AND t.relkind IN ('r', 'p', 'v', 'm', 'f')",
      QuoteLiteral(settings_.schema), QuoteLiteral(settings_.table));
}

std::string Statements::Table() const {
  return fmt::format(
      "SELECT t.oid, t.relkind, has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(t.oid, "
      "'SELECT'), has_table_privilege(t.oid, 'DELETE'), row_security_active(t.oid), current_user, "
      "current_setting('synchronous_commit') FROM {}",
      NamedTable());
}

std::string Statements::Columns() const {
  return fmt::format(
      "SELECT a.attname, format_type(a.atttypid, NULL), a.attnum FROM {} JOIN "
      "pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped",
      NamedTable());
}

std::string Statements::Sequences() const {
  return fmt::format(
      "SELECT s.seqrelid::regclass::text, s.seqcache, s.seqincrement, s.seqcycle FROM {} JOIN "
      "pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attname = {} JOIN "
      "pg_catalog.pg_sequence s ON s.seqrelid IN (SELECT d.objid FROM pg_catalog.pg_depend d WHERE "
      "d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = "
      "t.oid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i') UNION ALL SELECT d.refobjid "
      "FROM pg_catalog.pg_attrdef f JOIN pg_catalog.pg_depend d ON d.classid = "
      "'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass WHERE "
      "f.adrelid = t.oid AND f.adnum = a.attnum) ORDER BY s.seqcache DESC, 1",
      NamedTable(), QuoteLiteral(settings_.columns.seq));
}

std::string Statements::Indexes() const {
  return fmt::format(
      "SELECT i.indisunique, i.indkey::text FROM {} JOIN pg_catalog.pg_index i ON i.indrelid = "
      "t.oid AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL JOIN "
      "pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam "
      "AND m.amname = 'btree'",
      NamedTable());
}

std::string Statements::SleepingTriggers() const {
  return fmt::format(
      "SELECT t.tgrelid::regclass::text, quote_ident(t.tgname), t.tgenabled = 'O' FROM "
      "pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid AND p.proname IN "
      "('changelog_note', 'changelog_note_partition') JOIN pg_catalog.pg_namespace n ON n.oid = "
      "p.pronamespace AND n.nspname = {} WHERE t.tgenabled <> 'A' ORDER BY 1, 2",
      QuoteLiteral(settings_.schema));
}

std::string Statements::CountFrom(uint64_t xid, uint64_t most) const {
  return fmt::format("SELECT count(*) FROM (SELECT FROM {} c WHERE {} >= {} LIMIT {}) r", table_,
                     xid_, XidLiteral(xid), most);
}

// The view of sessions shows 32 bits of it. A prepared transaction is no session's.
std::string Statements::Holder(uint64_t xid) const {
  const uint32_t narrow = static_cast<uint32_t>(xid);
  return fmt::format(
      "SELECT concat_ws(', ', 'pid ' || pid, 'database ' || datname, 'user ' || usename, "
      "'application ' || quote_literal(application_name), state, coalesce('its transaction open "
      "for ' || extract(epoch FROM clock_timestamp() - xact_start)::bigint || ' s', 'more is shown "
      "to members of pg_read_all_stats')) FROM pg_stat_activity WHERE backend_xid = '{0}'::xid "
      "UNION ALL SELECT format('prepared transaction %s, database %s, owner %s, "
      "prepared %s s ago: COMMIT PREPARED or ROLLBACK PREPARED', quote_literal(gid), database, "
      "owner, extract(epoch FROM clock_timestamp() - prepared)::bigint) FROM pg_prepared_xacts "
      "WHERE transaction = '{0}'::xid",
      narrow);
}

std::string Statements::Trim(const PullScope& scope, uint32_t rows) const {
  return fmt::format(
      "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL lock_timeout = '100ms'; "
      "SET LOCAL statement_timeout = '5s'; WITH gone AS (DELETE FROM {0} c WHERE {1} IN (SELECT "
      "seq FROM ({2}) r(seq) LIMIT {3}) RETURNING 1) SELECT count(*) FROM gone",
      table_, seq_, Rows(scope, seq_), rows);
}

std::string Statements::CreateIndex() const {
  return fmt::format("CREATE INDEX CONCURRENTLY ON {} ({}, {});", table_,
                     QuoteIdentifier(settings_.columns.xid),
                     QuoteIdentifier(settings_.columns.seq));
}

std::string Statements::CreateUnique() const {
  return fmt::format("CREATE UNIQUE INDEX CONCURRENTLY ON {} ({});", table_,
                     QuoteIdentifier(settings_.columns.seq));
}

std::string Statements::GrantSelect(const std::string& role, bool with_delete) const {
  return fmt::format("GRANT SELECT{} ON {} TO {};", with_delete ? ", DELETE" : "", table_,
                     QuoteIdentifier(role));
}

std::string Statements::GrantUsage(const std::string& role) const {
  return fmt::format("GRANT USAGE ON SCHEMA {} TO {};", QuoteIdentifier(settings_.schema),
                     QuoteIdentifier(role));
}

}  // namespace tidemark::capture::changelog
