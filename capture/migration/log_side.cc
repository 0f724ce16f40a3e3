#include "capture/migration/log_side.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "capture/migration/migration_steps.h"
#include "capture/postgres/checks.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/publication.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/slot_creation.h"
#include "capture/postgres/sql_text.h"
#include "capture/postgres/table_catalog.h"
#include "capture/postgres/target.h"
#include "proto/reason.h"

namespace tidemark::capture {
namespace {

using postgres::Connection;
using postgres::Lsn;
using postgres::LsnText;

constexpr absl::Duration kAskTimeout = absl::Seconds(15);
// Reading which transactions the slot holds decodes them.
constexpr absl::Duration kDecodeTimeout = absl::Minutes(5);

std::string KeyText(const std::vector<std::string>& key) {
  return key.empty() ? "none" : fmt::format("({})", fmt::join(key, ", "));
}

class PostgresLogSide final : public LogSide {
 public:
  PostgresLogSide(const v1::FeedConfig& config, std::vector<TablePattern> tables,
                  uint64_t messages_at_once)
      : config_(config),
        tables_(std::move(tables)),
        messages_at_once_(messages_at_once),
        slot_(postgres::SlotName(config)),
        publication_(postgres::PublicationName(config)) {}

  absl::StatusOr<LogPlan> Check(const std::vector<PolledKey>& tables,
                                const v1::PostgresIdentity& polled) override;
  absl::StatusOr<SlotMove> MoveSlot(const PollSight& sight, bool exactly) override;
  absl::Status TakeAway(const v1::MigrationRecord& record) override;
  void Interrupt() override {
    check_interruption_.Raise();
    interruption_.Raise();
  }

 private:
  struct Server {
    std::unique_ptr<Connection> replication;
    std::unique_ptr<Connection> sql;
    postgres::ServerFacts facts;
  };
  absl::StatusOr<Server> Connect(postgres::Interruption* interruption) const;
  absl::Status CheckFindings();
  absl::Status CheckServerOf(const v1::PostgresIdentity& polled,
                             const postgres::ServerFacts& server) const;
  absl::Status CheckKeys(Connection* sql, const std::vector<PolledKey>& tables) const;
  absl::Status CheckKey(Connection* sql, const PolledKey& polled,
                        const postgres::SourceTable& table) const;
  absl::Status Refuse(const std::string& why) const {
    return MigrationRefused(config_.name(), why);
  }

  absl::Status Drop(const v1::MigrationRecord& record);
  absl::StatusOr<SlotMove> Move(Connection* sql, const PollSight& sight, bool exactly) const;
  absl::StatusOr<std::optional<Lsn>> ReadEnd(Connection* sql) const;
  struct Portion {
    std::vector<SlotCommit> commits;
    // The slot may hold more.
    bool more = false;
  };
  absl::StatusOr<Portion> ReadCommits(Connection* sql, Lsn upto) const;
  absl::Status Advance(Connection* sql, Lsn from, Lsn to) const;

  const v1::FeedConfig config_;
  const std::vector<TablePattern> tables_;
  const uint64_t messages_at_once_;
  const std::string slot_;
  const std::string publication_;
  postgres::Interruption check_interruption_;
  postgres::Interruption interruption_;
};

absl::StatusOr<PostgresLogSide::Server> PostgresLogSide::Connect(
    postgres::Interruption* interruption) const {
  const absl::Time deadline = absl::Now() + kAskTimeout;
  const postgres::Target target = postgres::TargetOf(config_);
  Server server;
  auto replication =
      Connection::Open(target, Connection::Kind::kReplication, interruption, deadline);
  if (!replication.ok()) return replication.status();
  server.replication = *std::move(replication);
  auto sql = Connection::Open(target, Connection::Kind::kSql, interruption, deadline);
  if (!sql.ok()) return sql.status();
  server.sql = *std::move(sql);
  auto facts = postgres::ReadServerFacts(server.replication.get(), server.sql.get(), deadline);
  if (!facts.ok()) return facts.status();
  server.facts = *std::move(facts);
  return server;
}

// ---- Check.

absl::StatusOr<LogPlan> PostgresLogSide::Check(const std::vector<PolledKey>& tables,
                                               const v1::PostgresIdentity& polled) {
  check_interruption_.Consume();
  if (absl::Status status = CheckFindings(); !status.ok()) return status;
  absl::StatusOr<Server> server = Connect(&check_interruption_);
  if (!server.ok()) return server.status();
  if (absl::Status status = CheckServerOf(polled, server->facts); !status.ok()) return status;
  if (absl::Status status = CheckKeys(server->sql.get(), tables); !status.ok()) return status;
  const absl::Time deadline = absl::Now() + kAskTimeout;
  const auto slot = postgres::ReadSlot(server->sql.get(), slot_, deadline);
  if (!slot.ok()) return slot.status();
  if (slot->has_value()) {
    return Refuse(fmt::format(
        "slot {} exists already, and this store knows nothing of it: it may be another consumer's. "
        "Configure another slot name, or, if nobody needs it, run SELECT "
        "pg_drop_replication_slot({})",
        slot_, postgres::QuoteLiteral(slot_)));
  }
  const auto publication = postgres::ReadPublication(server->sql.get(), publication_, deadline);
  if (!publication.ok()) return publication.status();
  LogPlan plan;
  plan.server.set_system_identifier(server->facts.system_identifier);
  plan.server.set_database(server->facts.database);
  plan.server.set_timeline(server->facts.timeline);
  plan.slot = slot_;
  if (!publication->has_value()) plan.publication_to_make = publication_;
  return plan;
}

absl::Status PostgresLogSide::CheckFindings() {
  const std::vector<Finding> findings =
      postgres::CheckPostgres(config_, tables_, &check_interruption_);
  // What could not be asked is nothing that the log lacks.
  if (check_interruption_.Consume()) {
    return absl::CancelledError("interrupted while checking the log");
  }
  std::string found;
  for (const Finding& finding : findings) {
    if (finding.severity != Finding::Severity::kError) continue;
    fmt::format_to(std::back_inserter(found), "{}{}: {}", found.empty() ? "" : "; ", finding.reason,
                   finding.message);
    if (!finding.remedy.empty()) {
      fmt::format_to(std::back_inserter(found), " (run: {})", finding.remedy);
    }
  }
  if (found.empty()) return absl::OkStatus();
  return Refuse("the log cannot be read as configured: " + found);
}

absl::Status PostgresLogSide::CheckServerOf(const v1::PostgresIdentity& polled,
                                            const postgres::ServerFacts& server) const {
  const bool same_cluster =
      polled.system_identifier().empty() || polled.system_identifier() == server.system_identifier;
  if (same_cluster && polled.database() == server.database) return absl::OkStatus();
  return Refuse(fmt::format(
      "database {} of cluster {} is polled, but the log is that of database {} of cluster {}; let "
      "poll.postgres and postgres name the same database",
      polled.database(),
      polled.system_identifier().empty() ? "unknown" : polled.system_identifier(), server.database,
      server.system_identifier));
}

absl::Status PostgresLogSide::CheckKeys(Connection* sql,
                                        const std::vector<PolledKey>& tables) const {
  const auto captured = postgres::ReadMatchingTables(sql, tables_, absl::Now() + kAskTimeout);
  if (!captured.ok()) return captured.status();
  for (const PolledKey& polled : tables) {
    const auto table = std::find_if(captured->begin(), captured->end(), [&](const auto& one) {
      return one.schema == polled.schema && one.table == polled.table;
    });
    if (table == captured->end()) {
      return Refuse(fmt::format(
          "table {} is polled, and would not be captured from the log: add it to postgres.tables",
          TableNameText(polled.schema, polled.table)));
    }
    if (absl::Status status = CheckKey(sql, polled, *table); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PostgresLogSide::CheckKey(Connection* sql, const PolledKey& polled,
                                       const postgres::SourceTable& table) const {
  const auto keys = postgres::ReadKeyOrders(sql, table.oid, absl::Now() + kAskTimeout);
  if (!keys.ok()) return keys.status();
  std::vector<std::string> logged;
  if (table.replica_identity == 'd' || table.replica_identity == 'f') logged = keys->primary_key;
  if (table.replica_identity == 'i') logged = keys->identity_index;
  const std::vector<std::string>& known = polled.key.empty() ? keys->primary_key : polled.key;
  if (known == logged && !logged.empty()) return absl::OkStatus();
  return Refuse(fmt::format(
      "rows of {} are told apart by {} while it is polled, and by {} in the log, so that they "
      "could "
      "not be compared. Make its replica identity the index of the polled key (ALTER TABLE {} "
      "REPLICA IDENTITY USING INDEX …), or capture it as a feed of its own",
      table.Text(), KeyText(known), KeyText(logged),
      postgres::QuoteTable(table.schema, table.table)));
}

// ---- MoveSlot.

absl::StatusOr<SlotMove> PostgresLogSide::MoveSlot(const PollSight& sight, bool exactly) {
  auto sql = Connection::Open(postgres::TargetOf(config_), Connection::Kind::kSql, &interruption_,
                              absl::Now() + kAskTimeout);
  absl::StatusOr<SlotMove> move = sql.ok() ? Move(sql->get(), sight, exactly) : sql.status();
  // Not before: one that came just then would be lost, and nobody else ends the call.
  interruption_.Consume();
  return move;
}

absl::StatusOr<SlotMove> PostgresLogSide::Move(Connection* sql, const PollSight& sight,
                                               bool exactly) const {
  const auto slot = postgres::ReadSlot(sql, slot_, absl::Now() + kAskTimeout);
  if (!slot.ok()) return slot.status();
  const auto publication = postgres::ReadPublication(sql, publication_, absl::Now() + kAskTimeout);
  if (!publication.ok()) return publication.status();
  SlotMove move;
  move.kind = SlotMove::Kind::kGone;
  if (!slot->has_value()) move.why = fmt::format("slot {} is gone", slot_);
  if (slot->has_value() && IsLost(**slot)) move.why = fmt::format("slot {} is lost", slot_);
  if (!publication->has_value()) move.why = fmt::format("publication {} is gone", publication_);
  if (!move.why.empty()) return move;
  if (absl::Status free = CheckSlotFree(**slot); !free.ok()) return free;
  move.kind = SlotMove::Kind::kNotYet;
  const auto end = ReadEnd(sql);
  if (!end.ok()) return end.status();
  if (!end->has_value()) return move;

  std::optional<postgres::XidSnapshot> seen;
  if (sight.complete) {
    auto parsed = postgres::XidSnapshot::Parse(sight.snapshot);
    if (!parsed.ok()) return parsed.status();
    seen = *std::move(parsed);
  }
  const Lsn from = *(*slot)->confirmed_flush;
  const auto portion = ReadCommits(sql, **end);
  if (!portion.ok()) return portion.status();
  // What a poll saw is durable here: none of it has to be told by the log.
  const SwitchPlace place = portion->more ? PlaceBeforeMore(from, portion->commits, seen)
                                          : PlaceOfSwitch(from, portion->commits, seen);
  move.kind = SlotMove::Kind::kNotExact;
  if (exactly && !place.exact) return move;
  if (absl::Status status = Advance(sql, from, place.at); !status.ok()) return status;
  move.kind = portion->more ? SlotMove::Kind::kMovedInPart : SlotMove::Kind::kMoved;
  move.at = place.at;
  move.exact = place.exact;
  return move;
}

// Everything that anybody has seen of the database lies before it; nothing while that is not
// flushed.
absl::StatusOr<std::optional<Lsn>> PostgresLogSide::ReadEnd(Connection* sql) const {
  const absl::Time deadline = absl::Now() + kAskTimeout;
  constexpr char kDoing[] = "asking where the log ends";
  const auto end = sql->Query(
      "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
      "ELSE "
      "pg_current_wal_insert_lsn() END",
      kDoing, deadline);
  if (!end.ok()) return end.status();
  const auto inserted = postgres::ParseLsn(end->empty() ? "" : end->Text(0, 1));
  if (!inserted.ok()) return inserted.status();
  if (end->True(0, 0)) return std::optional(*inserted);
  const Lsn needed = FlushedWhenAll(*inserted);
  const auto flushed = postgres::ReadFlushed(sql, deadline);
  if (!flushed.ok()) return flushed.status();
  return *flushed >= needed ? std::optional(needed) : std::nullopt;
}

absl::StatusOr<PostgresLogSide::Portion> PostgresLogSide::ReadCommits(Connection* sql,
                                                                      Lsn upto) const {
  // The first byte of a message says what it is. The last one ends a transaction, so that its
  // number is how many there are; counting them by a window would store what they carry once more.
  const auto rows = sql->Query(
      fmt::format("SELECT lsn, xid, number FROM pg_logical_slot_peek_binary_changes({}, {}, {}, "
                  "'proto_version', '1', 'publication_names', {}) WITH ORDINALITY AS m(lsn, xid, "
                  "data, number) WHERE get_byte(data, 0) = ascii('C') ORDER BY number",
                  postgres::QuoteLiteral(slot_), postgres::QuoteLiteral(LsnText(upto)),
                  messages_at_once_,
                  postgres::QuoteLiteral(postgres::QuoteIdentifier(publication_))),
      fmt::format("looking which transactions slot {} holds", slot_), absl::Now() + kDecodeTimeout);
  if (!rows.ok()) return rows.status();
  Portion portion;
  for (size_t row = 0; row < rows->rows.size(); ++row) {
    const auto lsn = postgres::ParseLsn(rows->Text(row, 0));
    if (!lsn.ok()) return lsn.status();
    portion.commits.push_back({static_cast<uint32_t>(rows->Number(row, 1)), *lsn});
    portion.more = rows->Number(row, 2) >= messages_at_once_;
  }
  return portion;
}

absl::Status PostgresLogSide::Advance(Connection* sql, Lsn from, Lsn to) const {
  if (to <= from) return absl::OkStatus();
  const auto moved =
      sql->Query(fmt::format("SELECT end_lsn FROM pg_replication_slot_advance({}, {})",
                             postgres::QuoteLiteral(slot_), postgres::QuoteLiteral(LsnText(to))),
                 fmt::format("moving slot {} to where the last poll ended", slot_),
                 absl::Now() + kDecodeTimeout);
  if (!moved.ok()) return moved.status();
  const auto at = postgres::ParseLsn(moved->empty() ? "" : moved->Text(0, 0));
  if (at.ok() && *at == to) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
      fmt::format("slot {} was to be moved to {}, and did not come to stand there; it is tried "
                  "again behind the next poll",
                  slot_, LsnText(to)));
}

// ---- TakeAway.

absl::Status PostgresLogSide::TakeAway(const v1::MigrationRecord& record) {
  absl::Status gone = Drop(record);
  interruption_.Consume();
  return gone;
}

absl::Status PostgresLogSide::Drop(const v1::MigrationRecord& record) {
  auto server = Connect(&interruption_);
  if (!server.ok()) return server.status();
  v1::PostgresCheckpoint recorded;
  recorded.set_system_identifier(record.postgres().system_identifier());
  recorded.set_database(record.postgres().database());
  if (absl::Status same = CheckSameDatabase(recorded, server->facts); !same.ok()) return same;
  const absl::Time deadline = absl::Now() + kAskTimeout;
  Connection* const sql = server->sql.get();
  const auto slot = postgres::ReadSlot(sql, record.slot(), deadline);
  if (!slot.ok()) return slot.status();
  if (slot->has_value()) {
    if (absl::Status kind = CheckSlotKind(**slot, server->facts.database); !kind.ok()) return kind;
    if (absl::Status free = CheckSlotFree(**slot); !free.ok()) return free;
    if (absl::Status dropped = postgres::DropSlot(sql, record.slot(), deadline); !dropped.ok()) {
      return dropped;
    }
  }
  if (record.publication().empty()) return absl::OkStatus();
  return sql
      ->Query(fmt::format("BEGIN READ WRITE; DROP PUBLICATION IF EXISTS {}; COMMIT",
                          postgres::QuoteIdentifier(record.publication())),
              fmt::format("dropping publication {}", record.publication()), deadline)
      .status();
}

}  // namespace

std::unique_ptr<LogSide> MakeLogSide(const v1::FeedConfig& config, std::vector<TablePattern> tables,
                                     uint64_t messages_at_once) {
  return std::make_unique<PostgresLogSide>(config, std::move(tables), messages_at_once);
}

}  // namespace tidemark::capture
