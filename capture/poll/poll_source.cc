// PollSource: from Open to Close, and which of its steps comes next.
#include "capture/poll/poll_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "capture/poll/make_engine.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture {
namespace {

using poll::PollSettings;

PollSettings SettingsOrDefaults(const absl::StatusOr<PollSettings>& settings) {
  return settings.ok() ? *settings : PollSettings();
}

bool MatchesAny(const v1::FeedConfig& config, const poll::TableSettings& table) {
  return std::any_of(config.before_images().begin(), config.before_images().end(),
                     [&](const std::string& text) {
                       const auto pattern = TablePattern::Parse(text);
                       return pattern.ok() && pattern->Matches(table.schema, table.table);
                     });
}

}  // namespace

PollSource::PollSource(const v1::FeedConfig& config)
    : feed_(config.name()),
      settings_(poll::SettingsOf(config)),
      engine_(poll::MakeEngine(config, SettingsOrDefaults(settings_))),
      schedule_(SettingsOrDefaults(settings_).interval, SettingsOrDefaults(settings_).delay),
      budget_(SettingsOrDefaults(settings_).scan_rows_per_second),
      board_(SettingsOrDefaults(settings_)) {
  if (!settings_.ok()) return;
  for (const poll::TableSettings& table : settings_->tables) {
    wants_before_.push_back(MatchesAny(config, table));
  }
}

PollSource::~PollSource() { Close(); }

void PollSource::UseKnownRows(KnownRows* known) {
  known_ = known;
  comparison_ = std::make_unique<poll::RowComparison>(known);
}

void PollSource::Enter(Phase phase, v1::SourceState state, std::string detail) {
  phase_ = phase;
  board_.SetState(state, std::move(detail));
  const bool streams =
      phase == Phase::kWaiting || phase == Phase::kPolling || phase == Phase::kScanning;
  desk_.SetStreaming(streams);
}

v1::PolledTableState* PollSource::StateOf(v1::PollCheckpoint* checkpoint, size_t table) const {
  return checkpoint->mutable_tables(static_cast<int>(table));
}

void PollSource::AlignStates() {
  v1::PollCheckpoint aligned = done_;
  aligned.clear_tables();
  for (const poll::TableSettings& table : settings_->tables) {
    v1::PolledTableState* state = aligned.add_tables();
    const auto known = std::find_if(
        done_.tables().begin(), done_.tables().end(), [&](const v1::PolledTableState& one) {
          return one.schema_name() == table.schema && one.table_name() == table.table;
        });
    if (known != done_.tables().end()) {
      *state = *known;
      continue;
    }
    state->set_schema_name(table.schema);
    state->set_table_name(table.table);
    // One that was polled before: what went on meanwhile is found by a comparison.
    if (known_ == nullptr || known_->KeyColumns(table.schema, table.table).empty()) continue;
    poll::BeginScan(/*ordered=*/true, 0, state->mutable_scan());
  }
  done_ = std::move(aligned);
}

absl::Status PollSource::Open(const v1::Checkpoint& checkpoint, uint32_t generation) {
  Close();
  if (!settings_.ok()) return settings_.status();
  generation_ = generation;
  board_.SetState(v1::SOURCE_STATE_CONNECTING, "connecting");
  const bool heals = checkpoint.has_broken();
  done_ = checkpoint.poll();
  if (heals) {
    if (absl::Status broken = OpenBroken(checkpoint); !broken.ok()) return broken;
    // Whatever cluster it is.
    done_.clear_postgres();
  }
  if (absl::Status opened = engine_->Open(done_); !opened.ok()) return opened;
  engine_->FillIdentity(&done_);
  AlignStates();
  const bool first = std::exchange(is_new_, false);
  scan_ = std::make_unique<poll::KeyScan>(engine_.get(), comparison_.get());
  verifier_ = std::make_unique<poll::PollVerifier>(&*settings_, engine_.get(), comparison_.get());
  snapshot_time_us_ = checkpoint.snapshot_time_us();
  conflicts_ = 0;
  failed_ = absl::OkStatus();
  shapes_.assign(settings_->tables.size(), std::nullopt);
  if (checkpoint.snapshot_phase() != v1::SNAPSHOT_PHASE_WHOLE) {
    done_.set_polls(0);
    head_ = Position::Of(generation_, uint64_t{0});
    schedule_.Reset(0);
    Enter(Phase::kPreparing, v1::SOURCE_STATE_SNAPSHOT, "about to read every row");
    return absl::OkStatus();
  }
  absl::StatusOr<Position> position = Position::FromBytes(checkpoint.position());
  if (!position.ok()) return position.status();
  head_ = *position;
  schedule_.Reset(done_.polls());
  // Somebody may hold the next poll as a bound, sampled a moment ago in another life of the server.
  if (first) schedule_.Sample(absl::Now());
  board_.SetTables(done_);
  if (absl::Status ahead = StopAt(stop_); !ahead.ok()) return ahead;
  Enter(heals ? Phase::kHealing : Phase::kWaiting, v1::SOURCE_STATE_STREAMING, "polling");
  return absl::OkStatus();
}

absl::Status PollSource::OpenBroken(const v1::Checkpoint& checkpoint) {
  const v1::BreakRecord& broken = checkpoint.broken();
  if (broken.policy() == v1::RECOVERY_POLICY_RESNAPSHOT) {
    healing_ = broken;
    return absl::OkStatus();
  }
  const bool gap = broken.policy() == v1::RECOVERY_POLICY_GAP_AND_CONTINUE;
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, broken.reason(),
      fmt::format("{}{}", broken.message(),
                  gap ? "; a polled feed needs its current rows, so that it cannot go on without "
                        "them: recover it with the policy resnapshot"
                      : ""));
}

void PollSource::Close() {
  verifier_.reset();
  scan_.reset();
  run_.reset();
  announced_.clear();
  sight_.reset();
  to_show_.reset();
  tables_to_show_ = false;
  engine_->Close();
  healing_.reset();
  if (phase_ != Phase::kClosed) Enter(Phase::kClosed, v1::SOURCE_STATE_CONNECTING, "not connected");
}

v1::Checkpoint PollSource::CheckpointAt(const Position& position, v1::SnapshotPhase phase) const {
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(position.bytes()));
  checkpoint.set_snapshot_phase(phase);
  checkpoint.set_snapshot_time_us(snapshot_time_us_);
  *checkpoint.mutable_poll() = done_;
  return checkpoint;
}

// The store syncs before it shows what a poll told, and nothing is confirmed to a table.
absl::Status PollSource::Confirm(const Position& /*durable*/) {
  ShowStored();
  return absl::OkStatus();
}

void PollSource::ShowStored() {
  if (to_show_) {
    board_.Polled(*std::exchange(to_show_, std::nullopt));
    board_.SetState(v1::SOURCE_STATE_STREAMING, "polling");
    tables_to_show_ = true;
  }
  if (std::exchange(tables_to_show_, false)) board_.SetTables(done_);
}

absl::StatusOr<CaptureBatch> PollSource::Read(absl::Time deadline) {
  absl::StatusOr<CaptureBatch> batch = ReadPhases(deadline);
  if (!batch.ok())
    board_.SetState(v1::SOURCE_STATE_CONNECTING, std::string(batch.status().message()));
  return batch;
}

absl::StatusOr<CaptureBatch> PollSource::ReadPhases(absl::Time deadline) {
  CaptureBatch batch;
  ShowStored();
  {
    std::lock_guard lock(wake_mutex_);
    nudged_ = false;
    if (std::exchange(interrupted_, false)) {
      engine_->ConsumeInterrupt();
      return batch;
    }
  }
  while (true) {
    const absl::Status failed = std::exchange(failed_, absl::OkStatus());
    absl::StatusOr<bool> full = failed.ok() ? Step(deadline, &batch) : absl::StatusOr<bool>(failed);
    if (!full.ok()) {
      if (!engine_->Conflicted(full.status())) return full.status();
      if (absl::Status again = GiveUpRun(full.status(), &batch); !again.ok()) return again;
      return batch;
    }
    if (*full || absl::Now() >= deadline) return batch;
  }
}

absl::StatusOr<bool> PollSource::Step(absl::Time deadline, CaptureBatch* batch) {
  switch (phase_) {
    case Phase::kClosed:
      return absl::FailedPreconditionError("the source is closed");
    case Phase::kPreparing:
      batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_PREPARING);
      Enter(Phase::kSnapshot, v1::SOURCE_STATE_SNAPSHOT, "reading every row");
      return true;
    case Phase::kSnapshot:
      if (run_) return StepSnapshot(batch);
      if (schedule_.Due() > absl::Now()) return Wait(std::min(deadline, schedule_.Due()));
      if (absl::Status begun = BeginSnapshot(batch); !begun.ok()) return begun;
      return false;
    case Phase::kHealing: {
      const Position from = head_;
      ++generation_;
      head_ = Position::Of(generation_, done_.polls());
      v1::GapRecord& gap = batch->gap.emplace();
      gap.set_from(std::string(from.bytes()));
      gap.set_to(std::string(head_.bytes()));
      gap.set_reason(healing_->reason());
      gap.set_policy(healing_->policy());
      gap.set_time_us(absl::ToUnixMicros(absl::Now()));
      gap.set_detail(fmt::format(
          "{}. Polling went on in generation {}; every row is read again, and what it really "
          "differs in comes as changes",
          healing_->message(), generation_));
      for (v1::PolledTableState& state : *done_.mutable_tables()) {
        poll::SetBound({}, &state);
        poll::SetTombstoneBound({}, &state);
        state.clear_table_oid();
        poll::BeginScan(/*ordered=*/true, done_.clock_us(), state.mutable_scan());
      }
      batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
      batch->made = true;
      healing_.reset();
      Enter(Phase::kWaiting, v1::SOURCE_STATE_STREAMING, "polling");
      return true;
    }
    case Phase::kWaiting:
      TakeOrders(absl::Now());
      if (FinishIfDue(batch)) return true;
      return BeginNext(deadline, batch);
    case Phase::kPolling:
      return StepPoll(batch);
    case Phase::kScanning:
      return StepScan(batch);
    case Phase::kFinished:
      return Wait(deadline);
  }
  return false;
}

// True: somebody wants the Read to return.
bool PollSource::Wait(absl::Time until) {
  std::unique_lock lock(wake_mutex_);
  const auto wait = absl::ToChronoNanoseconds(std::min(until - absl::Now(), absl::Hours(1)));
  wake_.wait_for(lock, std::max(wait, std::chrono::nanoseconds(0)),
                 [this] { return nudged_ || interrupted_; });
  if (interrupted_) engine_->ConsumeInterrupt();
  const bool woken = nudged_ || interrupted_;
  nudged_ = interrupted_ = false;
  return woken;
}

void PollSource::Nudge() {
  std::lock_guard lock(wake_mutex_);
  nudged_ = true;
  wake_.notify_all();
}

void PollSource::Interrupt() {
  std::lock_guard lock(wake_mutex_);
  interrupted_ = true;
  engine_->Interrupt();
  wake_.notify_all();
}

void PollSource::TakeOrders(absl::Time /*now*/) {
  for (const TableOrder& order : desk_.Take()) {
    for (size_t table = 0; table < settings_->tables.size(); ++table) {
      const poll::TableSettings& one = settings_->tables[table];
      if (one.schema != order.schema || one.table != order.table) continue;
      v1::KeyScanState* scan = StateOf(&done_, table)->mutable_scan();
      poll::BeginScan(/*ordered=*/true, done_.clock_us(), scan);
      schedule_.Hurry();
    }
  }
  if (verifier_->active()) return;
  if (std::optional<VerifyOrder> order = desk_.TakeVerify()) {
    verifier_->Begin(*std::move(order));
    schedule_.Hurry();
  }
}

absl::Status PollSource::OrderTable(TableOrder order) {
  if (order.kind != TableOrder::Kind::kRead) {
    return ErrorWithReason(
        absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
        "the tables of a polled feed are those of its configuration, which says of each by which "
        "column it is polled: edit poll.tables and restart",
        {{"feature", "tables of a running feed"}});
  }
  const bool polled =
      settings_.ok() && std::any_of(settings_->tables.begin(), settings_->tables.end(),
                                    [&](const poll::TableSettings& one) {
                                      return one.schema == order.schema && one.table == order.table;
                                    });
  const std::string name = TableNameText(order.schema, order.table);
  if (!polled) {
    return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kTableUnknown,
                           fmt::format("the feed polls no table {}", name), {{"table", name}});
  }
  absl::Status put = desk_.Put(std::move(order));
  if (put.ok()) Nudge();
  return put;
}

absl::Status PollSource::Verify(VerifyOrder order) {
  absl::Status put = desk_.PutVerify(std::move(order));
  if (put.ok()) Nudge();
  return put;
}

void PollSource::FillStatus(v1::FeedStatus* status) const { board_.Fill(status, absl::Now()); }

SourceDescription PollSource::Describe() const {
  SourceDescription description{.engine = "poll",
                                .completeness = v1::COMPLETENESS_CLASS_BEST_EFFORT,
                                .replays_exactly = false};
  if (!settings_.ok()) return description;
  const bool windows = std::all_of(
      settings_->tables.begin(), settings_->tables.end(), [&](const poll::TableSettings& table) {
        return settings_->overlap > absl::ZeroDuration() && table.overlap_values > 0;
      });
  if (windows || settings_->scans) {
    description.completeness = v1::COMPLETENESS_CLASS_WINDOW_BOUNDED;
  }
  description.notes.push_back(
      "polled: several updates of a row between two polls come as one, and only its last state");
  description.notes.push_back(fmt::format(
      "a row that becomes visible later than {} after its stamp, or is passed by more numbers than "
      "overlap_values where the cursor is one, is missed{}",
      absl::FormatDuration(settings_->overlap),
      settings_->scans ? " until all rows are compared" : ", unless all rows are compared"));
  for (const poll::TableSettings& table : settings_->tables) {
    std::string deletes;
    if (!table.deleted.empty()) deletes = fmt::format("rows marked by {}", table.deleted);
    if (table.tombstones) {
      deletes += fmt::format("{}rows of {}", deletes.empty() ? "" : " and ",
                             TableNameText(table.tombstones->schema, table.tombstones->table));
    }
    if (deletes.empty()) deletes = "none";
    description.table_notes.push_back(
        {table.schema, table.table,
         fmt::format("deletes that polls see: {}; {}", deletes,
                     settings_->scans ? "others are found when all rows are compared"
                                      : "others only by a comparison that is asked for")});
  }
  return description;
}

}  // namespace tidemark::capture
