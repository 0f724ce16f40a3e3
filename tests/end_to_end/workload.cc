#include "tests/end_to_end/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/timestamps.h"

namespace tidemark::testing {
namespace {

// A session that waits for what another one prepared would wait for ever.
constexpr char kSessionSql[] =
    "set lock_timeout = '150ms'; set deadlock_timeout = '40ms'; set client_min_messages = error";
constexpr int kAttemptsMax = 100;

}  // namespace

Workload::Workload(const LivePostgres& postgres, const std::string& database, int sessions,
                   uint64_t seed, bool keyless)
    : postgres_(postgres),
      database_(database),
      tables_(keyless),
      movements_(WorkloadTables::Names().size()) {
  for (int i = 0; i < sessions; ++i) {
    threads_.emplace_back([this, i, seed] { Run(i, seed * 31 + static_cast<uint64_t>(i)); });
  }
}

bool Workload::IsLockError(const absl::Status& status) {
  const std::string message(status.message());
  return message.find("55P03") != std::string::npos || message.find("40P01") != std::string::npos;
}

// ---- Turns.

void Workload::AllowTurns(int turns) {
  {
    std::lock_guard lock(mutex_);
    allowed_ += static_cast<uint64_t>(turns);
  }
  changed_.notify_all();
}

uint64_t Workload::turns_taken() {
  std::lock_guard lock(mutex_);
  return taken_;
}

uint64_t Workload::turns_allowed() {
  std::lock_guard lock(mutex_);
  return allowed_;
}

void Workload::AllowShapeChanges(bool allowed) {
  std::lock_guard lock(mutex_);
  shape_changes_ = allowed;
}

void Workload::HoldBack() {
  std::unique_lock lock(mutex_);
  held_back_ = true;
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void Workload::LetGo() {
  {
    std::lock_guard lock(mutex_);
    held_back_ = false;
  }
  changed_.notify_all();
}

bool Workload::TakeTurn() {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [this] { return stopping_ || asked_for_ > 0 || (!held_back_ && begun_ < allowed_); });
  if (stopping_) return false;
  if (asked_for_ > 0) {
    --asked_for_;
    ++allowed_;
  }
  ++begun_;
  ++busy_;
  return true;
}

// Somebody has to take a turn, whatever is allowed: a session waits for what another one prepared.
void Workload::AskForTurn() {
  {
    std::lock_guard lock(mutex_);
    asked_for_ = 1;
  }
  changed_.notify_all();
}

void Workload::EndTurn() {
  {
    std::lock_guard lock(mutex_);
    --busy_;
    ++taken_;
    // Whoever still waits asks again.
    asked_for_ = 0;
  }
  changed_.notify_all();
}

void Workload::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

uint64_t Workload::committed() {
  std::lock_guard lock(mutex_);
  return committed_;
}

uint64_t Workload::failed() {
  std::lock_guard lock(mutex_);
  return failed_;
}

std::string Workload::History() {
  std::lock_guard lock(mutex_);
  return history_;
}

// ---- What moved.

std::vector<std::string> Workload::Unsettled() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (size_t i = 0; i < movements_.size(); ++i) {
    if (!movements_[i].settled) names.push_back(WorkloadTables::Names()[i]);
  }
  return names;
}

void Workload::NoteStatus(const v1::FeedStatus& status) {
  if (!status.has_tables_seen()) return;
  const absl::Time seen = FromTimestamp(status.tables_seen());
  std::lock_guard lock(mutex_);
  for (const v1::TableStatus& table : status.tables()) {
    if (table.state() != v1::TABLE_FOLLOW_STATE_FOLLOWED) continue;
    for (size_t i = 0; i < movements_.size(); ++i) {
      Movement& movement = movements_[i];
      if (table.table() != "public." + WorkloadTables::Names()[i]) continue;
      if (movement.settled || movement.under_way > 0 || movement.last >= seen) continue;
      movement.settled = true;
      history_ += fmt::format("{}: {} is settled, as of a look at {}\n",
                              absl::FormatTime(absl::Now()), table.table(), absl::FormatTime(seen));
    }
  }
}

// ---- Sessions.

void Workload::Run(int number, uint64_t seed) {
  Dice dice(seed);
  auto session = postgres_.Connect(database_);
  if (!session.ok() || !(*session)->Exec(kSessionSql).ok()) return;
  std::string prepared;
  while (TakeTurn()) {
    const absl::Status done = Step(session->get(), &dice, number, &prepared);
    // A deadlock, a lock that did not come, a duplicate key: part of the workload.
    if (!done.ok()) (void)(*session)->Exec("rollback");
    {
      std::lock_guard lock(mutex_);
      ++(done.ok() ? committed_ : failed_);
    }
    EndTurn();
  }
  if (!prepared.empty()) (void)(*session)->Exec(fmt::format("rollback prepared '{}'", prepared));
}

absl::Status Workload::Step(PgSession* session, Dice* dice, int number, std::string* prepared) {
  if (!prepared->empty() && dice->OneIn(2)) {
    return session->Exec(fmt::format("{} prepared '{}'", dice->OneIn(4) ? "rollback" : "commit",
                                     std::exchange(*prepared, "")));
  }
  bool may_change_shapes = false;
  {
    std::lock_guard lock(mutex_);
    may_change_shapes = shape_changes_;
  }
  // What it prepared itself would be in its way.
  if (may_change_shapes && prepared->empty() && dice->OneIn(7)) {
    const ShapeChange change = tables_.BeginShapeChange(dice);
    if (!change.statements.empty()) return ChangeShape(session, dice, change);
  }
  return ChangeRows(session, dice, number, prepared);
}

absl::Status Workload::ChangeRows(PgSession* session, Dice* dice, int number,
                                  std::string* prepared) {
  std::string sql = "begin;";
  const auto add = [&](int statements) {
    for (int i = 0; i < statements; ++i) sql += tables_.RowStatement(dice) + ";";
  };
  add(1 + dice->Below(4));
  if (dice->OneIn(4)) {
    sql += "savepoint a;";
    add(1 + dice->Below(2));
    if (dice->OneIn(2)) {
      sql += "savepoint b;";
      add(1);
      sql += dice->OneIn(2) ? "release b;" : "rollback to b;";
      add(1);
    }
    sql += dice->OneIn(2) ? "release a;" : "rollback to a;";
    if (dice->OneIn(2)) add(1);
  }
  if (dice->OneIn(12)) return session->Exec(sql + "rollback");
  if (!prepared->empty() || !dice->OneIn(10)) return session->Exec(sql + "commit");
  // Names of prepared transactions are those of the whole cluster.
  const std::string name = fmt::format("{} {} {}", database_, number, dice->Below(1'000'000));
  absl::Status done = session->Exec(fmt::format("{} prepare transaction '{}'", sql, name));
  if (done.ok()) *prepared = name;
  return done;
}

absl::Status Workload::ChangeShape(PgSession* session, Dice* dice, const ShapeChange& change) {
  Movement& movement = movements_[change.table];
  Movement before;
  {
    std::lock_guard lock(mutex_);
    before = movement;
    if (change.moves_rows) {
      ++movement.under_way;
      movement.settled = false;
    }
  }
  const absl::Time began = absl::Now();
  const absl::Status done = DoShapeChange(session, dice, change);
  tables_.EndShapeChange(change, done.ok());
  const auto lsn = session->QueryValue("select pg_current_wal_insert_lsn()");
  std::lock_guard lock(mutex_);
  history_ +=
      fmt::format("{} to {}: {}: {}: {} at {}\n", absl::FormatTime(began),
                  absl::FormatTime(absl::Now()), WorkloadTables::Names()[change.table], change.what,
                  done.ok() ? "done" : done.ToString(), lsn.ok() ? *lsn : "an unknown position");
  for (const std::string& sql : change.statements) history_ += "    " + sql + "\n";
  if (!change.moves_rows) return done;
  --movement.under_way;
  if (done.ok() || !change.together) {
    movement.last = absl::Now();
  } else if (before.settled && movement.under_way == 0) {
    movement.settled = true;  // it was rolled back
  }
  return done;
}

absl::Status Workload::DoShapeChange(PgSession* session, Dice* dice, const ShapeChange& change) {
  if (change.together) {
    std::string sql = "begin;";
    const auto add_rows = [&] {
      if (dice->OneIn(3)) sql += tables_.RowStatement(dice, static_cast<int>(change.table)) + ";";
    };
    add_rows();
    for (const std::string& statement : change.statements) sql += statement + ";";
    add_rows();
    return session->Exec(sql + "commit");
  }
  for (const std::string& statement : change.statements) {
    absl::Status done;
    for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
      done = session->Exec(statement);
      if (!done.ok()) (void)session->Exec("rollback");
      if (!IsLockError(done)) break;
      AskForTurn();
    }
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

}  // namespace tidemark::testing
