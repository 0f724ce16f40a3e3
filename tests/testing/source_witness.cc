#include "tests/testing/source_witness.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace tidemark::testing {
namespace {

constexpr char kSlot[] = "witness";

// A slot cannot be made while a transaction stays open; nobody waits for that.
constexpr char kBounds[] =
    " options='-c statement_timeout=5s -c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=iso_8601 "
    "-c extra_float_digits=3 -c bytea_output=hex -c search_path='";

// "oid:identity:primary key's oid schema.table". What another index identifies is told otherwise by
// the oracle.
constexpr char kTablesSql[] =
    "select concat_ws(':', c.oid, c.relreplident, i.indexrelid) || ' ' || n.nspname || '.' || "
    "c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "left join pg_index i on i.indrelid = c.oid and i.indisprimary "
    "where c.relreplident in ('d', 'f') and c.relkind = 'r' and c.relpersistence = 'p' and not "
    "c.relispartition "
    "and n.nspname <> 'information_schema' and n.nspname !~ '^pg_' ";

constexpr char kPublished[] =
    "and exists (select from pg_publication_tables p where p.schemaname = n.nspname "
    "and p.tablename = c.relname and p.pubname like 'tidemark%' and p.rowfilter is null "
    "and cardinality(p.attnames) = (select count(*) from pg_attribute a where a.attrelid = c.oid "
    "and a.attnum > 0 and not a.attisdropped)) and not exists (select from pg_attribute a "
    "where a.attrelid = c.oid and a.attgenerated <> '' and not a.attisdropped)";

struct Known {
  std::string conninfo;
  std::unique_ptr<PgSession> session;
  std::unique_ptr<SqlOracle> oracle;
  std::set<std::string> tables;
};

absl::StatusOr<std::set<std::string>> Tables(PgSession& session, const std::string& sql) {
  const auto rows = session.Query(sql);
  if (!rows.ok()) return rows.status();
  std::set<std::string> tables;
  for (const auto& row : rows->rows) tables.insert(*row[0]);
  return tables;
}

absl::Status Connect(Known& known) {
  auto session = PgSession::Connect(known.conninfo);
  if (!session.ok()) return session.status();
  known.session = *std::move(session);
  // Asked after every stream, and longer to plan than to answer.
  return known.session->Exec(std::string("prepare published as ") + kTablesSql + kPublished);
}

absl::StatusOr<Testimony> Ask(Known& known) {
  // The database may have been restarted since.
  if (known.session == nullptr || !known.session->IsQuiet()) {
    if (absl::Status connected = Connect(known); !connected.ok()) return connected;
  }
  const auto behind = known.session->Query(fmt::format(
      "select pg_current_wal_flush_lsn() - confirmed_flush_lsn > {} from pg_replication_slots "
      "where slot_name = '{}'",
      kWitnessedBytesMax, kSlot));
  if (!behind.ok()) return behind.status();
  if (behind->Value() != "f") return absl::ResourceExhaustedError("more WAL than is looked at");
  const auto tables = Tables(*known.session, "execute published");
  if (!tables.ok()) return tables.status();
  auto transactions = known.oracle->Transactions();
  if (!transactions.ok()) return transactions.status();
  Testimony testimony;
  testimony.transactions = *std::move(transactions);
  for (const std::string& table : *tables) {
    if (known.tables.count(table) > 0) testimony.tables.insert(table.substr(table.find(' ') + 1));
  }
  return testimony;
}

}  // namespace

absl::StatusOr<Witness> CallSourceWitness(const std::string& conninfo) {
  auto known = std::make_shared<Known>();
  known->conninfo = conninfo + kBounds;
  if (absl::Status connected = Connect(*known); !connected.ok()) return connected;
  auto oracle = SqlOracle::Create(known->conninfo, kSlot);
  if (!oracle.ok()) return oracle.status();
  known->oracle = *std::move(oracle);
  auto tables = Tables(*known->session, kTablesSql);
  if (!tables.ok()) return tables.status();
  known->tables = *std::move(tables);
  return Witness([known] { return Ask(*known); });
}

}  // namespace tidemark::testing
