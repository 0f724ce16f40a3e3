#include "capture/migration/migrating_source.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/reason.h"

namespace tidemark::capture {
namespace {

// Where it is not known in which generation the log began (the feed was moved by a version that did
// not note it, or was never polled): no log of PostgreSQL has a place before it, and polls come to
// it after 12 days at one a second.
constexpr uint64_t kFirstLogPlace = 1 << 20;

absl::Status NotRunning() {
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
      "the feed is not polled at the moment: tidemark status says why; order it again when it is");
}

bool IsCompared(const v1::TableState& state) {
  return state.followed() && !state.has_reading() && state.error_reason().empty();
}

}  // namespace

MigratingSource::MigratingSource(Parts parts) : parts_(std::move(parts)) {
  desk_.Close(NotRunning());
}

MigratingSource::~MigratingSource() { Close(); }

void MigratingSource::OrderMigration(MigrationOrder order) {
  desk_.Put(std::move(order));
  Nudge();
}

void MigratingSource::UseKnownRows(KnownRows* known) {
  known_ = known;
  parts_.poll->UseKnownRows(known);
  parts_.log->UseKnownRows(known);
}

absl::Status MigratingSource::Open(const v1::Checkpoint& checkpoint, uint32_t generation) {
  Close();
  newest_ = checkpoint;
  durable_ = true;
  to_note_ = false;
  within_poll_ = false;
  has_fresh_poll_ = false;
  moved_in_part_ = false;
  not_before_ = absl::InfinitePast();
  from_log_ = checkpoint.has_postgres();
  log_generation_ = checkpoint.migration().log_generation();
  ShowStatus();
  if (absl::Status stops = Active().StopAt(stop_); !stops.ok()) return stops;
  if (absl::Status opened = Active().Open(checkpoint, generation); !opened.ok()) return opened;
  is_open_ = true;
  polls_before_slot_ = PollsEnded();
  TellAllOrNot();
  desk_.Open();
  return absl::OkStatus();
}

void MigratingSource::Close() {
  is_open_ = false;
  EndCheck(NotRunning());
  desk_.Close(NotRunning());
  for (const MigrationOrder& order : std::exchange(waiting_, {})) order.done(NotRunning());
  parts_.poll->Close();
  parts_.log->Close();
  log_open_ = false;
}

absl::StatusOr<DropOutcome> MigratingSource::DropOwned(
    const v1::Checkpoint& checkpoint, const std::function<absl::Status()>& decided) {
  Close();
  if (checkpoint.has_postgres()) return parts_.log->DropOwned(checkpoint, decided);
  if (absl::Status noted = decided(); !noted.ok()) return noted;
  DropOutcome outcome;
  const v1::MigrationRecord& move = checkpoint.migration();
  if (move.slot().empty()) return outcome;
  if (absl::Status gone = parts_.side->TakeAway(move); !gone.ok()) return gone;
  outcome.dropped.push_back("slot " + move.slot());
  if (!move.publication().empty()) outcome.dropped.push_back("publication " + move.publication());
  return outcome;
}

absl::StatusOr<CaptureBatch> MigratingSource::Read(absl::Time deadline) {
  if (!is_open_) return absl::FailedPreconditionError("the source is not open");
  TakeOrders();
  auto batch = from_log_ ? ReadLog(deadline) : ReadPolled(deadline);
  if (!batch.ok()) {
    Close();
    return batch;
  }
  if (batch->checkpoint) {
    newest_ = *batch->checkpoint;
    durable_ = false;
    ShowStatus();
  }
  return batch;
}

absl::Status MigratingSource::Confirm(const Position& durable) {
  durable_ = true;
  for (const MigrationOrder& order : std::exchange(waiting_, {})) order.done(absl::OkStatus());
  return Active().Confirm(durable);
}

// ---- Handed on.

absl::Status MigratingSource::StopAt(const StopPoint& point) {
  // Which of them it concerns, only a checkpoint says.
  absl::Status set = is_open_ ? Active().StopAt(point) : absl::OkStatus();
  if (set.ok()) stop_ = point;
  return set;
}

std::optional<LogEnd> MigratingSource::SampleEnd() { return Active().SampleEnd(); }

void MigratingSource::Prove(const std::optional<Position>& upto) {
  wanted_proof_ = upto;
  Active().Prove(upto);
}

void MigratingSource::Remember(std::vector<v1::TableState> states) {
  remembered_ = states;
  not_compared_.clear();
  for (const v1::TableState& state : states) {
    if (!IsCompared(state)) not_compared_.emplace(state.schema_name(), state.table_name());
  }
  parts_.poll->Remember(states);
  parts_.log->Remember(std::move(states));
}

absl::Status MigratingSource::OrderTable(TableOrder order) {
  return Active().OrderTable(std::move(order));
}

// They are those of the log, also while it is not read yet.
void MigratingSource::UseTables(std::vector<TablePattern> tables) {
  parts_.log->UseTables(std::move(tables));
}

absl::Status MigratingSource::Verify(VerifyOrder order) {
  return Active().Verify(std::move(order));
}

void MigratingSource::Nudge() { Active().Nudge(); }

void MigratingSource::Interrupt() {
  parts_.poll->Interrupt();
  parts_.log->Interrupt();
  parts_.side->Interrupt();
}

void MigratingSource::FillStatus(v1::FeedStatus* status) const {
  Active().FillStatus(status);
  std::lock_guard lock(status_mutex_);
  if (!status_.phase().empty()) *status->mutable_migration() = status_;
}

SourceDescription MigratingSource::Describe() const { return Active().Describe(); }

absl::Status MigratingSource::CheckBounded(const v1::Checkpoint& checkpoint) const {
  return (checkpoint.has_postgres() ? *parts_.log : *parts_.poll).CheckBounded(checkpoint);
}

std::string MigratingSource::NativeText(const Position& position) const {
  const uint32_t first = log_generation_;
  const bool polled = !from_log_ || (first != 0 ? position.generation() < first
                                                : position.engine_low() < kFirstLogPlace);
  return (polled ? *parts_.poll : *parts_.log).NativeText(position);
}

absl::StatusOr<Position> MigratingSource::ParseNative(std::string_view text,
                                                      uint32_t generation) const {
  return Active().ParseNative(text, generation);
}

// ---- From the log.

absl::StatusOr<CaptureBatch> MigratingSource::ReadLog(absl::Time deadline) {
  auto batch = parts_.log->Read(deadline);
  if (batch.ok()) NoteLogged(&*batch);
  return batch;
}

void MigratingSource::NoteLogged(CaptureBatch* batch) {
  for (const v1::TableState& state : batch->table_states) {
    const Name name(state.schema_name(), state.table_name());
    if (IsCompared(state)) {
      not_compared_.erase(name);
    } else {
      not_compared_.insert(name);
    }
  }
  if (!batch->checkpoint) return;
  if (newest_.migration().phase() == v1::MIGRATION_PHASE_SWITCHED && !IsReconciled()) {
    *batch->checkpoint->mutable_migration() = newest_.migration();
    return;
  }
  if (log_generation_ != 0) {
    batch->checkpoint->mutable_migration()->set_log_generation(log_generation_);
  }
  if (newest_.migration().phase() == v1::MIGRATION_PHASE_SWITCHED && batch->notice.empty()) {
    batch->notice =
        "the feed is moved to the log: every table that was polled was compared with its rows; the "
        "poll block of its configuration is not used any more";
    told_unused_poll_ = true;
  }
  if (told_unused_poll_ || !batch->notice.empty()) return;
  batch->notice =
      "the feed is captured from the log: the poll block of its configuration is not used any "
      "more, "
      "and can go";
  told_unused_poll_ = true;
}

bool MigratingSource::IsReconciled() const {
  return std::none_of(parts_.tables.begin(), parts_.tables.end(), [&](const PolledKey& table) {
    return not_compared_.count({table.schema, table.table}) > 0;
  });
}

}  // namespace tidemark::capture
