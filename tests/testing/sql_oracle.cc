#include "tests/testing/sql_oracle.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

constexpr std::chrono::seconds kRecoveryDeadline{60};

// Walks over one line; every step returns false at what it does not expect.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : rest_(line) {}

  std::string_view rest() const { return rest_; }
  bool AtEnd() const { return rest_.empty(); }

  bool Skip(std::string_view text) {
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  // A name as quote_identifier writes it.
  bool Name(std::string* name) {
    name->clear();
    if (!Skip("\"")) {
      while (!rest_.empty() && rest_[0] != '.' && rest_[0] != '[' && rest_[0] != ':' &&
             rest_[0] != ',') {
        name->push_back(rest_[0]);
        rest_.remove_prefix(1);
      }
      return !name->empty();
    }
    return Quoted('"', name);
  }

  bool Table(std::string* table) {
    std::string schema;
    std::string name;
    if (!Name(&schema) || !Skip(".") || !Name(&name)) return false;
    *table = schema + "." + name;
    return true;
  }

  // name[type]:value
  bool Column(std::string* name, std::optional<std::string>* value, bool* known) {
    if (!Name(name) || !Skip("[")) return false;
    const size_t type_end = rest_.find("]:");
    if (type_end == std::string_view::npos) return false;
    rest_.remove_prefix(type_end + 2);
    *known = true;
    std::string text;
    if (Skip("B'") || Skip("'")) {
      if (!Quoted('\'', &text)) return false;
      *value = text;
      return true;
    }
    while (!rest_.empty() && rest_[0] != ' ') {
      text.push_back(rest_[0]);
      rest_.remove_prefix(1);
    }
    *known = text != "unchanged-toast-datum";
    *value = text == "null" ? std::nullopt : std::optional(text);
    return !text.empty();
  }

  // Up to the next tuple marker or the end.
  bool Tuple(Columns* columns) {
    while (!AtEnd()) {
      Skip(" ");
      if (rest_.substr(0, 10) == "new-tuple:" || AtEnd()) return true;
      std::string name;
      std::optional<std::string> value;
      bool known = false;
      if (!Column(&name, &value, &known)) return false;
      if (known) (*columns)[name] = value;
    }
    return true;
  }

 private:
  // Behind the opening quote; a quote inside is doubled.
  bool Quoted(char quote, std::string* text) {
    while (!rest_.empty()) {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == quote) {
        if (rest_.empty() || rest_[0] != quote) return true;
        rest_.remove_prefix(1);
      }
      text->push_back(c);
    }
    return false;
  }

  std::string_view rest_;
};

absl::Status NotUnderstood(std::string_view line, std::string_view at) {
  return absl::DataLossError(fmt::format("test_decoding: not understood at '{}': {}", at, line));
}

Columns KeyOf(const Columns& columns, const std::vector<std::string>& names) {
  Columns key;
  for (const std::string& name : names) {
    if (const auto found = columns.find(name); found != columns.end()) key.insert(*found);
  }
  return key;
}

// The old row stands there when the key changed, and always under replica identity full.
std::vector<OracleChange> UpdateChanges(const std::string& table, Columns old_row, Columns new_row,
                                        const TableKeys& keys) {
  const auto names = keys.find(table);
  if (names == keys.end() || old_row.empty() ||
      KeyOf(old_row, names->second) == KeyOf(new_row, names->second)) {
    return {{"update", table, std::move(new_row)}};
  }
  return {{"delete", table, std::move(old_row)}, {"insert", table, std::move(new_row)}};
}

// Planned once: to plan it takes ten times as long as to answer it.
constexpr char kPrepareKeysSql[] =
    "prepare keys as select n.nspname || '.' || c.relname, a.attname from pg_index i "
    "join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace "
    "cross join lateral unnest(i.indkey::int2[]) with ordinality as k(attnum, place) "
    "join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum "
    "where i.indisprimary order by 1, k.place";

// Decoding goes no further.
constexpr char kFlushedSql[] =
    "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else "
    "pg_current_wal_flush_lsn() end";

}  // namespace

absl::StatusOr<uint64_t> ParseLsn(std::string_view text) {
  unsigned high = 0;
  unsigned low = 0;
  int used = 0;
  const std::string copy(text);
  if (sscanf(copy.c_str(), "%8X/%8X%n", &high, &low, &used) != 2 ||
      static_cast<size_t>(used) != copy.size()) {
    return absl::InvalidArgumentError("no LSN: " + copy);
  }
  return uint64_t{high} << 32 | low;
}

absl::StatusOr<std::vector<OracleChange>> ParseDecodedLine(std::string_view line,
                                                           const TableKeys& keys) {
  LineParser parser(line);
  std::vector<std::string> tables(1);
  if (!parser.Skip("table ") || !parser.Table(&tables[0]))
    return NotUnderstood(line, parser.rest());
  while (parser.Skip(", ")) {
    tables.emplace_back();
    if (!parser.Table(&tables.back())) return NotUnderstood(line, parser.rest());
  }
  if (!parser.Skip(": ")) return NotUnderstood(line, parser.rest());
  std::vector<OracleChange> changes;
  if (parser.Skip("TRUNCATE:")) {
    for (const std::string& table : tables) changes.push_back({"truncate", table, {}});
    return changes;
  }
  Columns columns;
  if (parser.Skip("INSERT:") && parser.Tuple(&columns)) return {{{"insert", tables[0], columns}}};
  if (parser.Skip("DELETE:")) {
    if (parser.Skip(" (no-tuple-data)") || parser.Tuple(&columns)) {
      return {{{"delete", tables[0], columns}}};
    }
  }
  if (parser.Skip("UPDATE:")) {
    Columns old_row;
    const bool has_old = parser.Skip(" old-key:");
    if (has_old && !parser.Tuple(&old_row)) return NotUnderstood(line, parser.rest());
    if (has_old && !parser.Skip("new-tuple:")) return NotUnderstood(line, parser.rest());
    if (parser.Tuple(&columns)) return UpdateChanges(tables[0], old_row, columns, keys);
  }
  return NotUnderstood(line, parser.rest());
}

absl::StatusOr<std::unique_ptr<SqlOracle>> SqlOracle::Create(const std::string& conninfo,
                                                             const std::string& slot) {
  auto oracle = std::unique_ptr<SqlOracle>(new SqlOracle(conninfo, slot));
  if (absl::Status connected = oracle->Connect(); !connected.ok()) return connected;
  const absl::Status made = oracle->session_->Exec(
      fmt::format("select pg_create_logical_replication_slot('{}', 'test_decoding')", slot));
  if (!made.ok()) return made;
  return oracle;
}

absl::Status SqlOracle::Connect() {
  // One that recovers from a killed backend refuses; one that is gone does not answer.
  (void)WaitUntil([this] { return PQping(conninfo_.c_str()) != PQPING_REJECT; }, kRecoveryDeadline);
  auto session = PgSession::Connect(conninfo_);
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  // PostgreSQL 18.6 was seen to die of signal 11 where a decoding function spills to disk.
  const absl::Status set = session_->Exec("set logical_decoding_work_mem = '256MB'");
  return set.ok() ? session_->Exec(kPrepareKeysSql) : set;
}

absl::StatusOr<std::vector<OracleTransaction>> SqlOracle::Transactions() {
  absl::Status read = Read();
  if (!read.ok()) {
    // The database may have been restarted since.
    if (absl::Status connected = Connect(); !connected.ok()) return connected;
    read = Read();
  }
  if (!read.ok()) return read;
  return transactions_;
}

absl::Status SqlOracle::Read() {
  const auto flushed = session_->Query(kFlushedSql);
  if (!flushed.ok()) return flushed.status();
  if (flushed->Value() == read_to_) return absl::OkStatus();
  const auto key_rows = session_->Query("execute keys");
  if (!key_rows.ok()) return key_rows.status();
  TableKeys keys;
  for (const auto& row : key_rows->rows) keys[*row[0]].push_back(*row[1]);
  const auto lines = session_->Query(
      fmt::format("select lsn, xid, data from pg_logical_slot_peek_changes('{}', null, null, "
                  "'skip-empty-xacts', '1')",
                  slot_));
  if (!lines.ok()) return lines.status();
  OracleTransaction open;
  for (const auto& row : lines->rows) {
    const std::string_view data = *row[2];
    if (data.substr(0, 6) == "BEGIN ") {
      open = {0, *row[1], {}};
    } else if (data.substr(0, 7) == "COMMIT ") {
      const auto lsn = ParseLsn(*row[0]);
      if (!lsn.ok()) return lsn.status();
      open.end_lsn = *lsn;
      const bool repeated = !transactions_.empty() && transactions_.back().end_lsn >= *lsn;
      if (!open.changes.empty() && !repeated) transactions_.push_back(std::move(open));
    } else if (data.substr(0, 6) == "table ") {
      auto changes = ParseDecodedLine(data, keys);
      if (!changes.ok()) return changes.status();
      std::move(changes->begin(), changes->end(), std::back_inserter(open.changes));
    }
  }
  read_to_ = flushed->Value();
  if (transactions_.empty()) return absl::OkStatus();
  // Only now: a statement that is cut off while it sends its rows has moved the slot behind them.
  return session_->Exec(fmt::format("select pg_replication_slot_advance('{}', '{:X}/{:X}')", slot_,
                                    transactions_.back().end_lsn >> 32,
                                    transactions_.back().end_lsn & 0xffffffff));
}

absl::Status SqlOracle::DropSlot() {
  return session_->Exec(fmt::format("select pg_drop_replication_slot('{}')", slot_));
}

std::vector<OracleTransaction> OnlyTables(std::vector<OracleTransaction> transactions,
                                          const std::set<std::string>& tables) {
  std::vector<OracleTransaction> kept;
  for (OracleTransaction& transaction : transactions) {
    auto& changes = transaction.changes;
    changes.erase(
        std::remove_if(changes.begin(), changes.end(),
                       [&](const OracleChange& change) { return tables.count(change.table) == 0; }),
        changes.end());
    if (!changes.empty()) kept.push_back(std::move(transaction));
  }
  return kept;
}

}  // namespace tidemark::testing
