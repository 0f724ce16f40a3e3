#include "capture/poll/postgres_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/copy_text.h"
#include "capture/postgres/key_text.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_lock.h"
#include "capture/row_image.h"
#include "capture/value_writer.h"
#include "proto/reason.h"

namespace tidemark::capture::poll {
namespace {

using postgres::Connection;
using postgres::ResultRows;

// Sessions of others are shown as a whole only to who may see them.
constexpr char kWritersSql[] =
    "SELECT pg_has_role('pg_read_all_stats', 'USAGE'), (extract(epoch FROM clock_timestamp() -"
    " w.since) * 1000000)::bigint, w.who FROM (SELECT) one LEFT JOIN (SELECT a.xact_start AS since,"
    "  format('pid %s of database %s (%s%s)', a.pid, a.datname, a.usename, ', ' || a.state) AS who"
    "  FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.datname = current_database()"
    "  UNION ALL SELECT p.prepared, format('prepared transaction %L of database %s (%s)', p.gid,"
    "  p.database, p.owner) FROM pg_prepared_xacts p WHERE p.database = current_database()) w ON"
    " true ORDER BY w.since LIMIT 1";
constexpr char kReplaySql[] =
    "SELECT (pg_stat_get_wal_receiver()).pid IS NOT NULL AND pg_last_wal_receive_lsn() <="
    " pg_last_wal_replay_lsn(), (extract(epoch FROM clock_timestamp() -"
    " pg_last_xact_replay_timestamp()) * 1000000)::bigint";
// The clock comes before the snapshot of the same statement: nothing that was committed by then is
// missing from it.
constexpr char kBeginSql[] =
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL lock_timeout = {}; SELECT"
    " statement_timestamp()::text, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,"
    " pg_is_in_recovery(), pg_current_snapshot()";
constexpr char kClockSql[] =
    "SELECT (extract(epoch FROM CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp()"
    " ELSE clock_timestamp() END) * 1000000)::bigint";
// The snapshot sees the file that the table had; a table that was truncated or rewritten since then
// reads as empty, or as what it is not.
constexpr char kRewrittenSql[] =
    "SELECT count(*) FROM pg_class c WHERE c.relkind = 'r' AND c.oid IN (SELECT {0}::oid UNION ALL"
    " SELECT relid FROM pg_partition_tree({0}::oid)) AND pg_relation_filenode(c.oid) IS DISTINCT"
    " FROM c.relfilenode";

std::string SqlState(const absl::Status& status) {
  ErrorDetails details = DetailsOf(status);
  return details["sqlstate"];
}

absl::Status Busy(const std::string& what) {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kTableBusy, what);
}

}  // namespace

PostgresEngine::PostgresEngine(postgres::Target target, PollSettings settings)
    : target_(std::move(target)),
      settings_(std::move(settings)),
      tables_(settings_.tables.size()) {}

absl::Time PostgresEngine::Deadline() const { return absl::Now() + settings_.silence_timeout; }

absl::StatusOr<ResultRows> PostgresEngine::Ask(const std::string& sql, std::string_view doing) {
  return session_->Query(sql, doing, Deadline());
}

absl::Status PostgresEngine::Open(const v1::PollCheckpoint& checkpoint) {
  Close();
  absl::StatusOr<std::unique_ptr<Connection>> session = Connection::Open(
      target_, Connection::Kind::kSql, &interruption_, absl::Now() + kConnectTimeout);
  if (!session.ok()) return session.status();
  absl::StatusOr<postgres::ServerIdentity> server =
      postgres::ReadServerIdentity(session->get(), Deadline());
  if (!server.ok()) return server.status();
  if (absl::Status same =
          postgres::CheckSameServer(checkpoint.postgres(), server->identity, target_.Text());
      !same.ok()) {
    return same;
  }
  server_ = *std::move(server);
  // What was known once stays, where the role may not ask any more.
  if (server_.identity.system_identifier().empty()) {
    server_.identity.set_system_identifier(checkpoint.postgres().system_identifier());
  }
  session_ = *std::move(session);
  return absl::OkStatus();
}

void PostgresEngine::Close() {
  session_.reset();
  for (Table& table : tables_) table = Table();
}

void PostgresEngine::FillIdentity(v1::PollCheckpoint* checkpoint) const {
  *checkpoint->mutable_postgres() = server_.identity;
}

absl::Status PostgresEngine::LookWhoWrites(PollMoment* moment) {
  absl::StatusOr<ResultRows> rows = Ask(kWritersSql, "looking who writes");
  if (!rows.ok()) return rows.status();
  if (!rows->True(0, 0)) return absl::OkStatus();
  moment->oldest_writer = absl::Microseconds(static_cast<int64_t>(rows->Number(0, 1)));
  moment->writer = rows->Text(0, 2);
  return absl::OkStatus();
}

absl::Status PostgresEngine::LookAtReplay(PollMoment* moment) {
  absl::StatusOr<ResultRows> rows = Ask(kReplaySql, "asking how far the standby has replayed");
  if (!rows.ok()) return rows.status();
  if (!rows->True(0, 0) && !rows->IsNull(0, 1)) {
    moment->replay_lag = std::max(absl::ZeroDuration(),
                                  absl::Microseconds(static_cast<int64_t>(rows->Number(0, 1))));
  }
  return absl::OkStatus();
}

absl::StatusOr<PollMoment> PostgresEngine::BeginPoll() {
  PollMoment moment;
  // A standby shows no writer. Promoted meanwhile, it is asked at the next poll.
  absl::Status looked = server_.in_recovery ? LookAtReplay(&moment) : LookWhoWrites(&moment);
  if (!looked.ok()) return looked;
  absl::StatusOr<ResultRows> begun = Ask(
      fmt::format(kBeginSql, absl::ToInt64Milliseconds(postgres::kLockWait)), "beginning a poll");
  if (!begun.ok()) return begun.status();
  clock_text_ = begun->Text(0, 0);
  clock_ = absl::FromUnixMicros(static_cast<int64_t>(begun->Number(0, 1)));
  server_.in_recovery = begun->True(0, 2);
  moment.clock = clock_;
  moment.in_recovery = server_.in_recovery;
  moment.snapshot = begun->Text(0, 3);
  replay_lag_ = moment.replay_lag;
  absl::StatusOr<ResultRows> guarded = Ask("SAVEPOINT tidemark_table", "beginning a poll");
  if (!guarded.ok()) return guarded.status();
  return moment;
}

absl::Status PostgresEngine::EndPoll() { return Ask("COMMIT", "ending a poll").status(); }

absl::StatusOr<absl::Time> PostgresEngine::Clock() {
  absl::StatusOr<ResultRows> rows = Ask(kClockSql, "asking for the source's clock");
  if (!rows.ok()) return rows.status();
  return absl::FromUnixMicros(static_cast<int64_t>(rows->Number(0, 0)));
}

bool PostgresEngine::OfTable(const absl::Status& status) const {
  const std::string reason = ReasonOf(status);
  // A row that does not read is of its table whatever the connection does.
  const std::string state = SqlState(status);
  if (state.empty()) {
    for (std::string_view one :
         {reason::kSourceTableMissing, reason::kSourcePrivilege, reason::kTableUnreadable,
          reason::kCursorColumnUnusable, reason::kCursorIndexMissing, reason::kTableBusy}) {
      if (reason == one) return true;
    }
    return status.code() == absl::StatusCode::kDataLoss && reason == reason::kSourceProtocol;
  }
  // What a statement says of its table: names, types, rights, values, its lock.
  for (std::string_view of_table : {"42", "22", "0A"}) {
    if (state.starts_with(of_table)) return true;
  }
  return state == "55P03";
}

bool PostgresEngine::Conflicted(const absl::Status& status) const {
  return SqlState(status).starts_with("40");
}

absl::Status PostgresEngine::BackToTable(const absl::Status& error) {
  if (SqlState(error).empty() || !OfTable(error)) return error;
  absl::StatusOr<ResultRows> back =
      Ask("ROLLBACK TO SAVEPOINT tidemark_table", "leaving a table out of a poll");
  return back.ok() ? error : back.status();
}

absl::StatusOr<ResultRows> PostgresEngine::AskOfTable(const std::string& sql, size_t table) {
  absl::StatusOr<ResultRows> rows =
      Ask(sql, fmt::format("polling table {}", settings_.tables[table].Text()));
  if (rows.ok()) return rows;
  return BackToTable(rows.status());
}

absl::Status PostgresEngine::ReturnToTable(size_t table) {
  return AskOfTable("RELEASE SAVEPOINT tidemark_table; SAVEPOINT tidemark_table", table).status();
}

// Its lock is there before anything is read of it, and until the poll ends. Nothing: there is no
// such table.
absl::StatusOr<std::optional<std::string>> PostgresEngine::Hold(size_t table) {
  const TableSettings& settings = settings_.tables[table];
  absl::StatusOr<std::string> fingerprint = ReadFingerprint(session_.get(), settings, Deadline());
  if (!fingerprint.ok()) return BackToTable(fingerprint.status());
  if (fingerprint->empty()) return std::optional<std::string>();
  const Table& known = tables_[table];
  const bool same = known.known && known.known->fingerprint == *fingerprint;
  // A table that was never looked at may be one that must not be read.
  if (!same) return std::optional(*std::move(fingerprint));
  absl::StatusOr<ResultRows> held =
      AskOfTable(fmt::format("SELECT FROM {} r LIMIT 0", known.known->sql.from), table);
  if (!held.ok()) return held.status();
  return std::optional(*std::move(fingerprint));
}

absl::Status PostgresEngine::LookAgain(size_t table, const std::string& fingerprint) {
  Table& known = tables_[table];
  known.known.reset();
  absl::StatusOr<TableLook> look =
      LookAtTable(session_.get(), settings_.tables[table], settings_, Deadline());
  if (!look.ok()) return BackToTable(look.status());
  if (absl::Status refusal = RefusalOf(look->findings); !refusal.ok()) return refusal;
  look->table.fingerprint = fingerprint;
  known.known = std::move(look->table);
  known.looked = absl::Now();
  return AskOfTable(fmt::format("SELECT FROM {} r LIMIT 0", known.known->sql.from), table).status();
}

absl::StatusOr<TableWindow> PostgresEngine::BeginTable(size_t table, const CursorPlace& bound,
                                                       const CursorPlace& tombstone_bound) {
  if (absl::Status guarded = ReturnToTable(table); !guarded.ok()) return guarded;
  absl::StatusOr<std::optional<std::string>> fingerprint = Hold(table);
  const std::string name = settings_.tables[table].Text();
  absl::Status status = fingerprint.status();
  if (status.ok() && !*fingerprint) {
    tables_[table].known.reset();
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceTableMissing,
                           fmt::format("there is no table {} in the database; create it, or take "
                                       "it out of the tables of the feed",
                                       name));
  }
  Table& known = tables_[table];
  if (status.ok() && (!known.known || known.known->fingerprint != **fingerprint ||
                      absl::Now() - known.looked > kTableLookPeriod)) {
    status = LookAgain(table, **fingerprint);
  }
  if (postgres::IsLockTimeout(status)) {
    return Busy(
        fmt::format("table {} is locked by somebody else, and is polled when it is free "
                    "again ({})",
                    name, std::string(status.message())));
  }
  if (!status.ok()) return status;
  absl::StatusOr<ResultRows> rewritten =
      AskOfTable(fmt::format(kRewrittenSql, known.known->shape.table_oid), table);
  if (!rewritten.ok()) return rewritten.status();
  if (rewritten->Number(0, 0) > 0) {
    return Busy(fmt::format("table {} was truncated or rewritten while the poll began", name));
  }
  return ReadWindow(table, bound, tombstone_bound);
}

absl::StatusOr<TableWindow> PostgresEngine::ReadWindow(size_t table, const CursorPlace& bound,
                                                       const CursorPlace& tombstone_bound) {
  Table& known = tables_[table];
  const PostgresTable& polled = *known.known;
  const TableSettings& settings = settings_.tables[table];
  const WindowRules rules{.clock = clock_text_,
                          .delay = settings_.delay + replay_lag_,
                          .overlap = settings_.overlap + replay_lag_,
                          .overlap_values = settings.overlap_values,
                          .future_tolerance = settings_.future_tolerance,
                          .unit = polled.cursor_unit};
  absl::StatusOr<ResultRows> texts =
      AskOfTable(WindowSql(polled.sql, bound, tombstone_bound, rules), table);
  if (!texts.ok()) return texts.status();
  known.window = {.bound = bound,
                  .tombstone_bound = tombstone_bound,
                  .lower = texts->Text(0, 0),
                  .tombstone_lower = texts->Text(0, 1),
                  // Those of a day reach to its end.
                  .fence = fenced_ || polled.sql.cursor_type == CursorType::kDate
                               ? texts->Text(0, 2)
                               : texts->Text(0, 3),
                  .beyond = texts->Text(0, 3),
                  .behind_bound = ReadsBehindBoundOnly(polled.sql.cursor_type, rules)};
  TableWindow window{.shape = polled.shape, .bounded = !bound.empty()};
  if (!window.bounded) return window;
  absl::StatusOr<ResultRows> top = AskOfTable(TopSql(polled.sql, known.window, false), table);
  if (!top.ok()) return top.status();
  if (top->empty()) return window;
  window.highest = top->Text(0, 0);
  window.rewound = top->True(0, 1);
  return window;
}

absl::StatusOr<CursorPlace> PostgresEngine::FindTop(size_t table, bool tombstones) {
  const Table& known = tables_[table];
  const PageSql& sql = known.known->sql;
  if (tombstones && !sql.tombstones) return CursorPlace();
  absl::StatusOr<ResultRows> top = AskOfTable(
      tombstones ? TombstoneTopSql(sql, known.window) : TopSql(sql, known.window, true), table);
  if (!top.ok()) return top.status();
  CursorPlace place;
  if (top->empty()) return place;
  place.cursor = top->Text(0, 0);
  for (size_t i = 0; i < sql.key.size(); ++i) place.key.push_back(top->Text(0, 2 + i));
  return place;
}

absl::StatusOr<uint64_t> PostgresEngine::CountNulls(size_t table, uint64_t count_max) {
  absl::StatusOr<ResultRows> count =
      AskOfTable(NullCountSql(tables_[table].known->sql, count_max), table);
  if (!count.ok()) return count.status();
  return count->Number(0, 0);
}

// What comes behind the bound is read, and dropped: the session stays usable.
absl::Status PostgresEngine::ReadLines(const std::string& sql, size_t table, bool cut,
                                       std::vector<std::string>* lines, bool* was_cut) {
  const std::string doing = fmt::format("reading table {}", settings_.tables[table].Text());
  if (absl::Status started = session_->StartCopy(sql, doing, Deadline()); !started.ok()) {
    return BackToTable(started);
  }
  size_t bytes = 0;
  while (true) {
    std::string_view line;
    absl::StatusOr<Connection::Copy> copy = session_->NextCopy(&line);
    if (!copy.ok()) return BackToTable(copy.status());
    if (*copy == Connection::Copy::kEnd) return absl::OkStatus();
    if (*copy == Connection::Copy::kNothingYet) {
      absl::StatusOr<Connection::Wake> wake = session_->Wait(Deadline());
      if (!wake.ok()) return wake.status();
      if (*wake == Connection::Wake::kReadable) continue;
      if (*wake == Connection::Wake::kInterrupted) return absl::CancelledError(doing);
      return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceSilent,
                             fmt::format("no row came in time while {}; it is tried again", doing));
    }
    if (cut && bytes > kPageBytesMax) {
      *was_cut = true;
      continue;
    }
    if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    bytes += line.size();
    lines->emplace_back(line);
  }
}

absl::StatusOr<RowPage> PostgresEngine::ReadPage(size_t table, const PageOrder& order) {
  Table& known = tables_[table];
  PageOrder sized = order;
  sized.rows_max = std::min(order.rows_max, known.rows_max);
  std::vector<std::string> lines;
  bool was_cut = false;
  // A key that is asked for and does not come counts as gone.
  const bool by_keys =
      order.part == PageOrder::Part::kKeys || order.part == PageOrder::Part::kKeysAlone;
  const bool cut = !by_keys;
  absl::Status read =
      ReadLines(PageCopySql(known.known->sql, known.window, sized), table, cut, &lines, &was_cut);
  if (!read.ok()) return read;
  const auto came = static_cast<uint32_t>(lines.size());
  if (was_cut) {
    known.rows_max = std::max(came, 1u);
  } else if (!by_keys && known.rows_max < order.rows_max) {
    known.rows_max = known.rows_max * 2;
  }
  RowPage page;
  page.at_end = !was_cut && (by_keys || came < sized.rows_max);
  for (const std::string& line : lines) {
    absl::StatusOr<PolledRow> row = RowOf(*known.known, line);
    if (!row.ok()) return row.status();
    page.rows.push_back(*std::move(row));
  }
  return page;
}

absl::StatusOr<PolledRow> PostgresEngine::RowOf(const PostgresTable& table, std::string_view line) {
  // A tab within a value is escaped.
  size_t begin = 0;
  for (size_t i = 0; i < kLineFacts + table.sql.key.size(); ++i) {
    begin = line.find('\t', begin);
    if (begin == std::string_view::npos) break;
    ++begin;
  }
  std::string scratch;
  std::vector<std::optional<std::string_view>> facts;
  const size_t facts_count = kLineFacts + table.sql.key.size();
  if (begin == std::string_view::npos ||
      !postgres::SplitCopyLine(line.substr(0, begin - 1), &scratch, &facts) ||
      facts.size() != facts_count) {
    return ErrorWithReason(
        absl::StatusCode::kDataLoss, reason::kSourceProtocol,
        fmt::format("a line of table {} is no row of it", table.relation.shape.table_name));
  }
  const auto is = [&](size_t place) { return facts[place] == "t"; };
  PolledRow row{.tombstone = facts[0] == "d",
                .below_bound = is(2),
                .waits = is(3),
                .poison = is(4),
                .overruled = is(5),
                .left_to_younger = is(6)};
  if (facts[1]) row.cursor = std::string(*facts[1]);
  for (size_t i = 0; i < table.sql.key.size(); ++i) {
    row.key.emplace_back(facts[kLineFacts + i].value_or(std::string_view()));
  }
  const postgres::RowShape& shape = table.relation.shape;
  if (row.tombstone) {
    postgres::RowShape key{.table_name = shape.table_name};
    std::vector<postgres::TupleColumn> values;
    for (size_t i = 0; i < shape.key_columns.size(); ++i) {
      key.types.push_back(shape.types[shape.key_columns[i]]);
      key.column_names.push_back(shape.column_names[shape.key_columns[i]]);
      key.key_columns.push_back(static_cast<uint32_t>(i));
      values.push_back({postgres::ColumnKind::kText, row.key[i]});
    }
    absl::StatusOr<std::vector<std::string>> encoded = encoder_.KeyValues(key, values, {});
    if (!encoded.ok()) return encoded.status();
    for (const std::string& value : *encoded)
      AppendSerialized(ValueTag::kKey, value, &row.key_image);
    return row;
  }
  absl::Status encoded = encoder_.EncodeCopyLine(shape, line.substr(begin), &row.after);
  if (!encoded.ok()) return encoded;
  absl::StatusOr<std::vector<std::string_view>> values = ValuesOf(row.after);
  if (!values.ok()) return values.status();
  for (const uint32_t column : shape.key_columns) {
    AppendSerialized(ValueTag::kKey, values->at(column), &row.key_image);
  }
  return row;
}

std::string PostgresEngine::KeyText(const v1::Value& value) const {
  return postgres::InputText(value);
}

}  // namespace tidemark::capture::poll
