// MigratingSource: orders, and the steps from polling to the log.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "capture/migration/migrating_source.h"
#include "capture/postgres/lsn.h"
#include "proto/reason.h"
#include "proto/timestamps.h"

namespace tidemark::capture {
namespace {

using postgres::LsnText;

// An order that nobody waits for any more must not hold up the end of the server.
constexpr std::chrono::milliseconds kCheckInterruptPeriod(50);

std::string TextOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason.empty() ? std::string(status.message())
                        : fmt::format("{}: {}", reason, std::string(status.message()));
}

Position PositionOf(const v1::Checkpoint& checkpoint) {
  return Position::FromBytes(checkpoint.position()).value_or(Position());
}

}  // namespace

// ---- Orders.

void MigratingSource::TakeOrders() {
  CollectCheck();
  while (!checked_) {
    std::optional<MigrationOrder> order = desk_.Take();
    if (!order) return;
    CarryOut(*std::move(order));
  }
}

void MigratingSource::CarryOut(MigrationOrder order) {
  const OrderVerdict verdict = JudgeOrder(newest_, order.roll_back, stop_ != StopPoint());
  switch (verdict.answer) {
    case OrderAnswer::kRefuse:
      return order.done(MigrationRefused(parts_.feed, verdict.why));
    case OrderAnswer::kBegin:
      return BeginCheck(std::move(order));
    case OrderAnswer::kRollBack:
      record().set_phase(v1::MIGRATION_PHASE_ROLLING_BACK);
      TellAllOrNot();
      to_note_ = true;
      parts_.log->Close();
      log_open_ = false;
      not_before_ = absl::InfinitePast();
      waiting_.push_back(std::move(order));
      return;
    case OrderAnswer::kUnderWay:
      if (durable_ && !to_note_) return order.done(absl::OkStatus());
      waiting_.push_back(std::move(order));
      return;
  }
}

// Polling goes on meanwhile.
void MigratingSource::BeginCheck(MigrationOrder order) {
  checked_ = std::move(order);
  check_ = std::async(std::launch::async, [side = parts_.side.get(), keys = KeysKnown(),
                                           polled = newest_.poll().postgres(), this] {
    auto plan = side->Check(keys, polled);
    Nudge();
    return plan;
  });
}

std::vector<PolledKey> MigratingSource::KeysKnown() const {
  std::vector<PolledKey> keys = parts_.tables;
  for (PolledKey& table : keys) {
    if (known_ == nullptr) continue;
    std::vector<std::string> known = known_->KeyColumns(table.schema, table.table);
    if (!known.empty()) table.key = std::move(known);
  }
  return keys;
}

void MigratingSource::CollectCheck() {
  if (!checked_ || check_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  const absl::StatusOr<LogPlan> plan = check_.get();
  MigrationOrder order = *std::exchange(checked_, std::nullopt);
  if (!plan.ok()) return order.done(plan.status());
  // What the order was judged by may be another by now.
  const OrderVerdict verdict = JudgeOrder(newest_, false, stop_ != StopPoint());
  if (verdict.answer != OrderAnswer::kBegin) {
    return order.done(MigrationRefused(parts_.feed, verdict.why));
  }
  v1::MigrationRecord& begun = record();
  begun.Clear();
  begun.set_phase(v1::MIGRATION_PHASE_PREPARING);
  begun.set_slot(plan->slot);
  begun.set_publication(plan->publication_to_make);
  *begun.mutable_postgres() = plan->server;
  begun.set_started_us(absl::ToUnixMicros(absl::Now()));
  to_note_ = true;
  waiting_.push_back(std::move(order));
}

void MigratingSource::EndCheck(const absl::Status& why) {
  if (!checked_) return;
  do {
    parts_.side->Interrupt();
  } while (check_.wait_for(kCheckInterruptPeriod) != std::future_status::ready);
  // What it found would be found again. A call that was interrupted found nothing.
  const absl::Status found = check_.get().status();
  const bool refuses = ReasonOf(found) == reason::kMigrationRefused;
  std::exchange(checked_, std::nullopt)->done(refuses ? found : why);
}

// ---- Polling, with a step between two polls.

absl::StatusOr<CaptureBatch> MigratingSource::ReadPolled(absl::Time deadline) {
  if (durable_ && !within_poll_) {
    if (std::exchange(to_note_, false)) return NoteRecord();
    if (std::optional<CaptureBatch> batch = TakeStep()) return *std::move(batch);
  }
  if (log_open_ || checked_ || moved_in_part_) {
    deadline = std::min(deadline, absl::Now() + kPreparingPeriod);
  }
  auto batch = parts_.poll->Read(deadline);
  if (batch.ok()) NotePolled(&*batch);
  return batch;
}

void MigratingSource::NotePolled(CaptureBatch* batch) {
  if (!batch->checkpoint) {
    within_poll_ |= !batch->events.empty();
    return;
  }
  within_poll_ = false;
  const bool ended = PositionOf(*batch->checkpoint).engine_low() > PositionOf(newest_).engine_low();
  if (!newest_.has_migration()) return;
  if (ended) {
    has_fresh_poll_ = true;
    const uint64_t polls = PositionOf(*batch->checkpoint).engine_low();
    record().set_phase(PhaseBehindPoll(record().phase(), polls - polls_before_slot_));
    if (record().phase() == v1::MIGRATION_PHASE_OVERLAPPED && record().overlapping_poll() == 0) {
      record().set_overlapping_poll(PositionOf(*batch->checkpoint).engine_low());
      record().clear_message();
    }
  }
  *batch->checkpoint->mutable_migration() = newest_.migration();
}

// Also those that told nothing, and that no checkpoint was handed over for.
uint64_t MigratingSource::PollsEnded() const {
  const std::optional<PollSight> sight = parts_.sight();
  return std::max(PositionOf(newest_).engine_low(), sight ? sight->poll : 0);
}

void MigratingSource::TellAllOrNot() {
  const v1::MigrationPhase phase = newest_.migration().phase();
  parts_.tell_all(phase == v1::MIGRATION_PHASE_PREPARED || phase == v1::MIGRATION_PHASE_OVERLAPPED);
}

CaptureBatch MigratingSource::NoteRecord() {
  CaptureBatch batch;
  batch.checkpoint = newest_;
  // Whoever sets it says so beside every checkpoint.
  batch.checkpoint->clear_stop();
  return batch;
}

std::optional<CaptureBatch> MigratingSource::TakeStep() {
  moved_in_part_ = false;
  const MigrationFacts facts{.phase = newest_.migration().phase(),
                             .settled = true,
                             .due = absl::Now() >= not_before_,
                             .has_fresh_poll = has_fresh_poll_};
  switch (NextStep(facts)) {
    case MigrationStep::kPrepare:
      return Prepare();
    case MigrationStep::kSwitch:
      return Switch();
    case MigrationStep::kTakeAway:
      return TakeAway();
    default:
      return std::nullopt;
  }
}

// ---- Steps.

// The log source makes its slot as behind a break, and is closed when the slot is there.
std::optional<CaptureBatch> MigratingSource::Prepare() {
  if (!log_open_) {
    parts_.log->Remember({});
    const v1::Checkpoint checkpoint = CheckpointForLog(newest_);
    const absl::Status opened = parts_.log->Open(checkpoint, PositionOf(checkpoint).generation());
    if (!opened.ok()) return TryAgain(TextOf(opened));
    log_open_ = true;
  }
  auto batch = parts_.log->Read(absl::Now());
  if (!batch.ok()) {
    log_open_ = false;
    return TryAgain(TextOf(batch.status()));
  }
  if (batch->gap) return Prepared(*batch);
  if (batch->checkpoint) {
    // It asks that it be noted what it is about to make, which it is.
    if (auto confirmed = parts_.log->Confirm(Position()); !confirmed.ok()) {
      log_open_ = false;
      return TryAgain(TextOf(confirmed));
    }
  }
  v1::FeedStatus status;
  parts_.log->FillStatus(&status);
  Say(status.detail());
  return std::nullopt;
}

CaptureBatch MigratingSource::Prepared(const CaptureBatch& behind_gap) {
  const v1::PostgresCheckpoint& made = behind_gap.checkpoint->postgres();
  parts_.log->Close();
  log_open_ = false;
  record().mutable_postgres()->set_timeline(made.timeline());
  record().set_consistent_lsn(made.consistent_lsn());
  record().set_prepared_us(absl::ToUnixMicros(absl::Now()));
  record().clear_overlapping_poll();
  polls_before_slot_ = PollsEnded();
  switches_tried_ = 0;
  return Enter(v1::MIGRATION_PHASE_PREPARED,
               fmt::format("slot {} stands at {}; a poll that began behind that is to end",
                           record().slot(), LsnText(made.consistent_lsn())));
}

std::optional<CaptureBatch> MigratingSource::Switch() {
  if (stop_ != StopPoint()) return TryAgain("an end of capture was set: tidemark stop --at never");
  // Who reads up to a poll that is still to come is to get that first.
  if (wanted_proof_ && *wanted_proof_ > PositionOf(newest_)) return std::nullopt;
  const std::optional<PollSight> sight = parts_.sight();
  if (!sight) return std::nullopt;
  const bool exactly = sight->complete && switches_tried_ < kExactSwitchesTried;
  const absl::StatusOr<SlotMove> move = parts_.side->MoveSlot(*sight, exactly);
  if (!move.ok()) return TryAgain(TextOf(move.status()));
  switch (move->kind) {
    case SlotMove::Kind::kGone:
      return PrepareAgain(move->why);
    case SlotMove::Kind::kNotYet:
      return TryAgain("what the last poll saw is not flushed yet");
    case SlotMove::Kind::kMovedInPart:
      // A poll that ends before the next part saw all of this one too.
      moved_in_part_ = true;
      Say(fmt::format("slot {} holds much; passing over what the polls saw, and at {} now",
                      record().slot(), LsnText(move->at)));
      return std::nullopt;
    case SlotMove::Kind::kNotExact:
      ++switches_tried_;
      has_fresh_poll_ = false;
      Say("transactions ended just when the last poll began; the next one is waited for");
      return std::nullopt;
    case SlotMove::Kind::kMoved:
      break;
  }
  absl::StatusOr<CaptureBatch> batch = OpenLogAt(move->at);
  if (batch.ok()) return *std::move(batch);
  parts_.log->Close();
  if (absl::IsAborted(batch.status())) return PrepareAgain(std::string(batch.status().message()));
  return TryAgain(TextOf(batch.status()));
}

absl::StatusOr<CaptureBatch> MigratingSource::OpenLogAt(postgres::Lsn at) {
  std::vector<v1::TableState> states = remembered_;
  for (const PolledKey& table : parts_.tables) {
    const bool is_there = std::any_of(states.begin(), states.end(), [&](const auto& state) {
      return state.schema_name() == table.schema && state.table_name() == table.table;
    });
    if (is_there) continue;
    v1::TableState& state = states.emplace_back();
    state.set_schema_name(table.schema);
    state.set_table_name(table.table);
    state.set_followed(true);
  }
  parts_.log->Remember(std::move(states));
  const v1::Checkpoint checkpoint = CheckpointForLog(newest_);
  const absl::Status opened = parts_.log->Open(checkpoint, PositionOf(checkpoint).generation());
  if (!opened.ok()) return opened;
  auto batch = parts_.log->Read(absl::Now());
  if (!batch.ok()) return batch;
  if (!batch->gap || batch->checkpoint->postgres().consistent_lsn() != at) {
    return absl::AbortedError(fmt::format("slot {} does not stand at {}, where it was put",
                                          record().slot(), LsnText(at)));
  }
  // Nothing is missing.
  batch->gap->clear_reason();
  batch->gap->clear_policy();
  batch->gap->set_from(newest_.position());
  batch->gap->set_detail(
      fmt::format("polled up to here; captured from the log behind {}", LsnText(at)));
  NoteLogged(&*batch);
  log_generation_ = PositionOf(*batch->checkpoint).generation();
  v1::MigrationRecord& switched = *batch->checkpoint->mutable_migration();
  switched = newest_.migration();
  switched.set_log_generation(log_generation_);
  switched.set_phase(v1::MIGRATION_PHASE_SWITCHED);
  switched.set_consistent_lsn(at);
  switched.set_message("the tables are compared with their rows");
  *switched.mutable_poll() = newest_.poll();
  batch->notice = batch->gap->detail();
  parts_.poll->Close();
  from_log_ = true;
  return batch;
}

CaptureBatch MigratingSource::PrepareAgain(const std::string& why) {
  record().clear_consistent_lsn();
  record().clear_overlapping_poll();
  return Enter(v1::MIGRATION_PHASE_PREPARING, why + ": it is prepared again");
}

std::optional<CaptureBatch> MigratingSource::TakeAway() {
  const absl::Status gone = parts_.side->TakeAway(newest_.migration());
  if (!gone.ok()) return TryAgain(TextOf(gone));
  newest_.clear_migration();
  CaptureBatch batch = NoteRecord();
  batch.notice = "the move to the log was rolled back; what was prepared for it is gone";
  return batch;
}

// ---- What is said of it.

CaptureBatch MigratingSource::Enter(v1::MigrationPhase phase, const std::string& message) {
  record().set_phase(phase);
  record().set_message(message);
  TellAllOrNot();
  return NoteRecord();
}

std::nullopt_t MigratingSource::TryAgain(const std::string& why) {
  not_before_ = absl::Now() + kMigrationRetryPeriod;
  Say("trying again: " + why);
  return std::nullopt;
}

void MigratingSource::Say(const std::string& message) {
  if (newest_.migration().message() == message) return;
  record().set_message(message);
  ShowStatus();
}

void MigratingSource::ShowStatus() {
  const v1::MigrationRecord& now = newest_.migration();
  std::lock_guard lock(status_mutex_);
  status_.Clear();
  status_.set_phase(PhaseWord(now.phase()));
  status_.set_message(now.message());
  status_.set_slot(now.slot());
  if (now.consistent_lsn() != 0) status_.set_consistent_point(LsnText(now.consistent_lsn()));
  if (now.started_us() == 0) return;
  *status_.mutable_started() = ToTimestamp(absl::FromUnixMicros(now.started_us()));
}

}  // namespace tidemark::capture
