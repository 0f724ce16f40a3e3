#include "capture/changelog/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/changelog/holder.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {

using postgres::Connection;

namespace {

std::string ApplicationName(const v1::FeedConfig& config) { return "tidemark/" + config.name(); }

}  // namespace

ChangelogSource::ChangelogSource(const v1::FeedConfig& config)
    : config_(config), settings_(SettingsOf(config)) {
  if (settings_.ok()) status_.Reads(*settings_);
}

ChangelogSource::~ChangelogSource() { Close(); }

void ChangelogSource::Enter(Phase phase, std::string cause) {
  phase_ = phase;
  v1::SourceState state = v1::SOURCE_STATE_CONNECTING;
  if (phase == Phase::kIdle || phase == Phase::kPulling) state = v1::SOURCE_STATE_STREAMING;
  status_.SetState(state, std::move(cause));
}

// After an error the source is closed, and its status says why.
absl::Status ChangelogSource::Failed(absl::Status status) {
  if (status.ok()) return status;
  pull_.reset();
  session_.reset();
  trimmer_.reset();
  Enter(Phase::kClosed, std::string(status.message()));
  return status;
}

void ChangelogSource::Close() {
  std::lock_guard lock(session_mutex_);
  pull_.reset();
  session_.reset();
  trimmer_.reset();
  Enter(Phase::kClosed, "closed");
}

absl::Status ChangelogSource::Open(const v1::Checkpoint& checkpoint, uint32_t generation) {
  std::lock_guard lock(session_mutex_);
  generation_ = generation;
  finished_ = false;
  healing_.reset();
  pull_.reset();
  lost_ = absl::OkStatus();
  // One that came too late for the last Read must not end this call.
  interruption_.Consume();
  absl::Status status = Connect();
  if (status.ok()) status = CheckStopPossible(stop_);
  if (status.ok()) {
    if (checkpoint.snapshot_phase() != v1::SNAPSHOT_PHASE_WHOLE) {
      snapshot_time_us_ = absl::ToUnixMicros(server_.clock);
      Enter(Phase::kPreparing, "about to read the changelog from its beginning");
    } else {
      status = checkpoint.has_broken() ? OpenBroken(checkpoint) : OpenWhole(checkpoint);
    }
  }
  interruption_.Consume();
  return Failed(std::move(status));
}

absl::Status ChangelogSource::Connect() {
  if (!settings_.ok()) return settings_.status();
  target_ = postgres::TargetOf(config_.changelog().postgres(), ApplicationName(config_));
  Enter(Phase::kClosed, fmt::format("connecting to {}", target_.Text()));
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<std::unique_ptr<Connection>> session =
      Connection::Open(target_, Connection::Kind::kSql, &interruption_, deadline);
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  absl::StatusOr<postgres::ServerIdentity> server =
      postgres::ReadServerIdentity(session_.get(), deadline);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  const absl::StatusOr<TableFacts> facts =
      ReadTableFacts(session_.get(), *settings_, server_.in_recovery, deadline);
  if (!facts.ok()) return facts.status();
  if (absl::Status usable = CheckTable(*facts, *settings_); !usable.ok()) return usable;
  const OptionalColumns optional = facts->optional(*settings_);
  statements_.emplace(*settings_, optional);
  has_old_rows_ = optional.old_row;
  assembler_.emplace(generation_, has_old_rows_, settings_->before_images);
  if (settings_->trim) {
    trimmer_.emplace(target_, *statements_, settings_->strategy, &interruption_);
  }
  told_.Clear();
  *told_.mutable_postgres() = server_.identity;
  told_.set_schema_name(settings_->schema);
  told_.set_table_name(settings_->table);
  told_.set_table_oid(facts->oid);
  told_.set_strategy(std::string(StrategyWord(settings_->strategy)));
  return absl::OkStatus();
}

absl::Status ChangelogSource::OpenWhole(const v1::Checkpoint& checkpoint) {
  v1::ChangelogCheckpoint stored = checkpoint.changelog();
  if (absl::Status same = CheckSame(stored, told_, target_.Text()); !same.ok()) return same;
  if (absl::Status changed = ChangeStrategy(settings_->strategy, &stored); !changed.ok()) {
    return changed;
  }
  // What cannot be asked now was known before, or the other way round.
  stored.mutable_postgres()->MergeFrom(server_.identity);
  told_ = std::move(stored);
  if (absl::Status ahead = CheckStopAhead(stop_); !ahead.ok()) return ahead;
  snapshot_time_us_ = checkpoint.snapshot_time_us();
  NoteHandedOver();
  if (trimmer_) trimmer_->Durable(told_);
  pull_due_ = absl::InfinitePast();
  Enter(Phase::kIdle, fmt::format("reads {}", settings_->TableText()));
  return absl::OkStatus();
}

absl::StatusOr<CaptureBatch> ChangelogSource::Read(absl::Time deadline) {
  std::lock_guard lock(session_mutex_);
  absl::StatusOr<CaptureBatch> batch = lost_.ok() ? ReadPhase(deadline) : lost_;
  interruption_.Consume();
  if (!batch.ok()) return Failed(batch.status());
  return batch;
}

absl::StatusOr<CaptureBatch> ChangelogSource::ReadPhase(absl::Time deadline) {
  switch (phase_) {
    case Phase::kClosed:
      return absl::FailedPreconditionError("the source is not open");
    case Phase::kPreparing:
      return Prepare();
    case Phase::kBeginning:
      return Begin();
    case Phase::kHealing:
      return Heal();
    case Phase::kIdle:
    case Phase::kPulling:
      break;
  }
  CaptureBatch batch;
  if (at_stop()) {
    if (!finished_) CompleteBatch(&batch);
    return batch;
  }
  if (phase_ == Phase::kIdle) {
    if (absl::Status waited = WaitUntilDue(deadline); !waited.ok()) return waited;
    if (absl::Now() < pull_due_) return batch;
    // At least once between two pulls, however fast these follow each other.
    if (trimmer_ && trimmer_->due(absl::Now())) {
      if (absl::Status trimmed = Trim(); !trimmed.ok()) return trimmed;
    }
    const absl::Status begun = BeginPull(absl::Now() + settings_->silence_timeout);
    if (!begun.ok()) return begun;
  }
  return ReadPull(deadline);
}

// Nothing is made at the source, so there is nothing to wait for.
CaptureBatch ChangelogSource::Prepare() {
  CaptureBatch batch;
  batch.checkpoint = CheckpointNow(v1::SNAPSHOT_PHASE_PREPARING);
  Enter(Phase::kBeginning, "about to read the changelog from its beginning");
  return batch;
}

CaptureBatch ChangelogSource::Begin() {
  CaptureBatch batch;
  batch.events.push_back(SnapshotWhole{PositionNow()});
  batch.checkpoint = CheckpointNow(v1::SNAPSHOT_PHASE_WHOLE);
  NoteHandedOver();
  pull_due_ = absl::InfinitePast();
  Enter(Phase::kIdle, fmt::format("reads {} from its beginning", settings_->TableText()));
  return batch;
}

absl::Status ChangelogSource::WaitUntilDue(absl::Time deadline) {
  while (absl::Now() < std::min(deadline, pull_due_)) {
    if (trimmer_ && trimmer_->due(absl::Now())) {
      if (absl::Status trimmed = Trim(); !trimmed.ok()) return trimmed;
      continue;
    }
    const absl::StatusOr<Connection::Wake> wake =
        session_->Wait(std::min(deadline, pull_due_), &nudge_);
    if (!wake.ok()) return wake.status();
    if (*wake != Connection::Wake::kReadable) break;
  }
  return absl::OkStatus();
}

absl::Status ChangelogSource::Trim() {
  const absl::StatusOr<uint64_t> deleted = trimmer_->Step(absl::Now());
  if (!deleted.ok()) return deleted.status();
  status_.Trimmed(*deleted);
  return absl::OkStatus();
}

absl::Status ChangelogSource::BeginPull(absl::Time deadline) {
  auto pull = std::make_unique<Pull>(session_.get(), *statements_, *settings_, &nudge_);
  report_ = PullReport{.began = absl::Now()};
  const absl::StatusOr<PullBegun> begun = pull->Begin(deadline);
  if (!begun.ok()) return begun.status();
  absl::Status same =
      CheckNotRewound(told_, *begun, pull->table_oid(), settings_->trim, server_.in_recovery);
  if (!same.ok()) return same;
  const absl::StatusOr<postgres::XidSnapshot> now = postgres::XidSnapshot::Parse(begun->snapshot);
  if (!now.ok()) return now.status();
  resumes_ = !told_.pulling().empty();
  const absl::StatusOr<PullScope> scope = ScopeOf(told_, settings_->strategy, *now);
  if (!scope.ok()) return scope.status();
  changelog::BeginPull(*begun, *settings_, &told_);
  report_.snapshot = begun->snapshot;
  report_.highest_seq = begun->highest_seq;
  if (settings_->strategy == Strategy::kXidWatermark) report_.watermark = now->xmin();
  pull_ = std::move(pull);
  phase_ = Phase::kPulling;
  return pull_->List(*scope);
}

absl::StatusOr<CaptureBatch> ChangelogSource::ReadPull(absl::Time deadline) {
  CaptureBatch batch;
  bool told = false;
  size_t bytes = 0;
  while (bytes < kBatchBytesMax && !at_stop()) {
    const absl::StatusOr<Pull::Step> step = pull_->Next(deadline);
    if (!step.ok()) return step.status();
    if (*step == Pull::Step::kNothingYet) break;
    if (*step == Pull::Step::kEnded) {
      if (absl::Status finished = FinishPull(); !finished.ok()) return finished;
      // Remembered as a pull that is to be gone on with.
      told |= !handed_over_.pulling().empty();
      break;
    }
    if (*step == Pull::Step::kRow) {
      if (pull_->rows_read() == 1) status_.PullBegan(absl::Now());
      const absl::Status added = assembler_->Add(pull_->row(), &batch.events);
      if (!added.ok()) return added;
      bytes += assembler_->TakeBytes();
      continue;
    }
    TellTransaction(pull_->transaction(), &told_);
    assembler_->End(told_.transactions(), pull_->transaction().xid, told_.clock_us(),
                    &batch.events);
    told = true;
  }
  // A pull that told nothing need not be remembered: the next one tells the same.
  if (told || at_stop()) CompleteBatch(&batch);
  return batch;
}

absl::Status ChangelogSource::FinishPull() {
  if (absl::Status ended = EndPull(settings_->strategy, &told_); !ended.ok()) return ended;
  report_.rows_read = pull_->rows_read();
  pull_.reset();
  if (absl::Status looked = LookAtWatermark(&report_); !looked.ok()) return looked;
  const absl::Time now = absl::Now();
  status_.PullEnded(report_, now);
  // Behind the rest of an earlier one, what came since then is due.
  pull_due_ = resumes_ ? now : now + settings_->interval;
  phase_ = Phase::kIdle;
  return absl::OkStatus();
}

absl::Status ChangelogSource::LookAtWatermark(PullReport* report) {
  if (!report->watermark) return absl::OkStatus();
  const absl::Time now = absl::Now();
  // That nothing waits is found out at once; whom many rows wait for, less often.
  if (waiting_.waiting_rows == 0 || now >= holder_asked_ + kHolderPeriod ||
      waiting_.watermark != report->watermark) {
    holder_asked_ = now;
    waiting_ = *report;
    if (absl::Status asked = AskWhoWaits(&waiting_); !asked.ok()) return asked;
  }
  report->waiting_rows = waiting_.waiting_rows;
  report->held_by = waiting_.held_by;
  return absl::OkStatus();
}

absl::Status ChangelogSource::AskWhoWaits(PullReport* report) {
  const absl::Time deadline = absl::Now() + settings_->silence_timeout;
  const auto waiting = session_->Query(statements_->CountFrom(*report->watermark, kWaitingRowsMax),
                                       "counting the rows that wait", deadline);
  if (!waiting.ok()) return waiting.status();
  report->waiting_rows = waiting->empty() ? 0 : waiting->Number(0, 0);
  if (report->waiting_rows == 0) return absl::OkStatus();
  const auto holder = session_->Query(statements_->Holder(*report->watermark),
                                      "asking who holds the watermark back", deadline);
  if (!holder.ok()) return holder.status();
  report->held_by = HolderText(*report->watermark, holder->empty() ? "" : holder->Text(0, 0),
                               server_.in_recovery, target_.user);
  return absl::OkStatus();
}

void ChangelogSource::NoteHandedOver() {
  handed_over_ = told_;
  handed_over_at_ = PositionNow();
}

void ChangelogSource::CompleteBatch(CaptureBatch* batch) {
  batch->checkpoint = CheckpointNow(v1::SNAPSHOT_PHASE_WHOLE);
  NoteHandedOver();
  if (!at_stop()) return;
  finished_ = true;
  batch->finished = stop_.bound->WithOrdinal(0);
  Enter(phase_, "ended where it was to end");
}

absl::Status ChangelogSource::Confirm(const Position& durable) {
  std::lock_guard lock(session_mutex_);
  if (trimmer_ && durable >= handed_over_at_) trimmer_->Durable(handed_over_);
  return absl::OkStatus();
}

v1::Checkpoint ChangelogSource::CheckpointNow(v1::SnapshotPhase phase) const {
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(PositionNow().bytes()));
  checkpoint.set_snapshot_phase(phase);
  checkpoint.set_snapshot_time_us(snapshot_time_us_);
  *checkpoint.mutable_changelog() = told_;
  return checkpoint;
}

void ChangelogSource::FillStatus(v1::FeedStatus* status) const {
  status_.Fill(status, absl::Now());
}

SourceDescription ChangelogSource::Describe() const {
  SourceDescription description;
  description.engine = "changelog";
  description.completeness = v1::COMPLETENESS_CLASS_CHANGELOG;
  description.notes.emplace_back(
      "read from a changelog: key and row are the JSON texts that it holds; a table that has no "
      "changes yet is not listed, and rows from before its triggers are known only from their "
      "first "
      "change on");
  if (!settings_.ok() || settings_->strategy == Strategy::kSnapshot) return description;
  // Every commit, whole, but not in the order of its rows.
  description.completeness = v1::COMPLETENESS_CLASS_BEST_EFFORT;
  description.notes.emplace_back(
      "strategy xid_watermark: every commit is told, in the order of transaction ids and not of "
      "commits. Where an older transaction writes to a row last, its change is told before that of "
      "a younger one, so that the row ends with a value that it no longer has; and a transaction "
      "that stays open holds up all that are younger. Strategy snapshot does neither");
  return description;
}

}  // namespace tidemark::capture::changelog
