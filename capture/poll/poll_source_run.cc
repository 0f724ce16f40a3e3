// PollSource: one poll, and the first, which reads every row.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/poll/poll_source.h"
#include "capture/row_image.h"
#include "proto/reason.h"

namespace tidemark::capture {
namespace {

// What one Read hands over at most, plus the page that passes the bound.
constexpr size_t kBatchBytesMax = 1 << 20;
// How often a poll is begun again after a conflict at the source before the connection is given up.
constexpr int kConflictsMax = 10;
constexpr absl::Duration kConflictWait = absl::Milliseconds(100);
// A table that is locked while everything is read is waited for.
constexpr absl::Duration kBusyWait = absl::Milliseconds(500);

size_t BytesOf(const std::vector<EncodedRun>& runs) {
  size_t bytes = 0;
  for (const EncodedRun& run : runs) bytes += run.bytes.size();
  return bytes;
}

bool IsBusy(const absl::Status& status) { return ReasonOf(status) == reason::kTableBusy; }

}  // namespace

void PollSource::Announce(const v1::TableSchema& schema, CaptureBatch* batch) {
  if (announced_.insert(schema.schema_id()).second) batch->events.push_back(SchemaSeen{schema});
}

absl::Status PollSource::LeaveOut(size_t table, const absl::Status& error,
                                  v1::PollCheckpoint* checkpoint) {
  if (!engine_->OfTable(error) && ReasonOf(error) != reason::kCursorNull &&
      ReasonOf(error) != reason::kSourceRewound && ReasonOf(error) != reason::kIdentityChanged) {
    return error;
  }
  shapes_[table].reset();
  v1::PolledTableState* state = StateOf(checkpoint, table);
  // As it was before the poll: what was told of it meanwhile is known, and is not told again.
  if (checkpoint == &work_) {
    const uint64_t null_cursors = state->null_cursors();
    *state = done_.tables(static_cast<int>(table));
    state->set_null_cursors(null_cursors);
  }
  if (state->error_reason() != ReasonOf(error)) {
    notice_ += fmt::format("{}{}: {}", notice_.empty() ? "" : "; ", ReasonOf(error),
                           std::string(error.message()));
    state->set_error_position(std::string(head_.bytes()));
    state->set_error_time_us(done_.clock_us());
  }
  state->set_error_reason(ReasonOf(error));
  state->set_error_message(std::string(error.message()));
  return absl::OkStatus();
}

absl::Status PollSource::AllRefused(const v1::PollCheckpoint& checkpoint) const {
  for (const v1::PolledTableState& state : checkpoint.tables()) {
    if (state.error_reason().empty() || state.error_reason() == reason::kTableBusy) {
      return absl::OkStatus();
    }
  }
  const v1::PolledTableState& first = checkpoint.tables(0);
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, first.error_reason(),
                         first.error_message());
}

absl::Status PollSource::BeginRun() {
  run_.emplace();
  run_->began = absl::Now();
  run_->tells_all = tells_all_;
  engine_->SetFenced(!tells_all_);
  absl::StatusOr<poll::PollMoment> moment = engine_->BeginPoll();
  if (!moment.ok()) return moment.status();
  run_->moment = *std::move(moment);
  schedule_.Began();
  work_ = done_;
  shapes_.assign(settings_->tables.size(), std::nullopt);
  builder_.Begin();
  return absl::OkStatus();
}

absl::Status PollSource::GiveUpRun(const absl::Status& error, CaptureBatch* batch) {
  if (++conflicts_ > kConflictsMax) return error;
  // What was told of every row cannot be taken back.
  if (phase_ == Phase::kSnapshot && run_ && run_->rows_read > 0) return error;
  if (absl::Status ended = engine_->EndPoll(); !ended.ok()) return ended;
  if (run_ && run_->large) batch->events.push_back(LargeAborted{handle_});
  run_.reset();
  const std::string detail =
      fmt::format("beginning the poll again: {}", std::string(error.message()));
  if (phase_ == Phase::kSnapshot) {
    board_.SetState(v1::SOURCE_STATE_SNAPSHOT, detail);
  } else {
    Enter(Phase::kWaiting, v1::SOURCE_STATE_STREAMING, detail);
  }
  schedule_.GaveUp(absl::Now() + kConflictWait);
  return absl::OkStatus();
}

// ---- The first poll.

absl::Status PollSource::BeginSnapshot(CaptureBatch* batch) {
  if (absl::Status begun = BeginRun(); !begun.ok()) return begun;
  if (stop_.time && run_->moment.clock > *stop_.time) {
    return ErrorWithReason(absl::StatusCode::kOutOfRange, reason::kBoundBeforeSnapshot,
                           fmt::format("feed {} is to stop before its rows are read; choose a "
                                       "later time",
                                       feed_));
  }
  snapshot_time_us_ = absl::ToUnixMicros(run_->moment.clock);
  run_->rows.assign(settings_->tables.size(), 0);
  board_.SnapshotBegan(run_->began);
  for (size_t table = 0; table < settings_->tables.size(); ++table) {
    v1::PolledTableState* state = StateOf(&work_, table);
    poll::TablePoll look({.settings = &*settings_,
                          .engine = engine_.get(),
                          .comparison = comparison_.get(),
                          .state = state},
                         table);
    absl::Status status = look.Begin();
    if (status.ok()) {
      // They are counted as they are read.
      state->set_null_cursors(0);
      shapes_[table] = look.shape();
      Announce(look.shape().schema, batch);
      continue;
    }
    if (IsBusy(status)) {
      board_.SetState(v1::SOURCE_STATE_SNAPSHOT, std::string(status.message()));
      run_.reset();
      schedule_.GaveUp(absl::Now() + kBusyWait);
      return engine_->EndPoll();
    }
    if (absl::Status left = LeaveOut(table, status, &work_); !left.ok()) return left;
  }
  return AllRefused(work_);
}

absl::StatusOr<bool> PollSource::StepSnapshot(CaptureBatch* batch) {
  const auto tables = settings_->tables.size();
  while (run_->table < tables && !shapes_[run_->table]) ++run_->table;
  if (run_->table == tables) return EndSnapshot(batch);
  const size_t table = run_->table;
  const poll::TableSettings& settings = settings_->tables[table];
  v1::PolledTableState* state = StateOf(&work_, table);
  absl::Status returned =
      run_->after_key.empty() ? engine_->ReturnToTable(table) : absl::OkStatus();
  if (!returned.ok()) return returned;
  poll::PageOrder order{.part = poll::PageOrder::Part::kByKey, .rows_max = settings_->page_rows};
  order.after.key = run_->after_key;
  absl::StatusOr<poll::RowPage> page = engine_->ReadPage(table, order);
  if (!page.ok()) return page.status();
  for (const poll::PolledRow& row : page->rows) {
    ++run_->rows_read;
    ++run_->rows[table];
    run_->after_key = row.key;
    if (row.overruled) continue;
    if (!row.cursor) {
      state->set_null_cursors(state->null_cursors() + 1);
      if (settings.null_cursors != poll::NullCursors::kInclude) continue;
    }
    if (row.poison) {
      state->set_poison_rows(state->poison_rows() + 1);
      if (state->poison_keys_size() < poll::kPoisonKeysMax) {
        state->add_poison_keys(KeyJson(shapes_[table]->schema, row.key_image, ImageColumns::kKey));
      }
    }
    builder_.AddChange(v1::OP_READ, shapes_[table]->schema.schema_id(), {.after = row.after});
  }
  if (page->at_end) {
    absl::StatusOr<poll::CursorPlace> top = engine_->FindTop(table, /*tombstones=*/false);
    if (!top.ok()) return top.status();
    poll::SetBound(*top, state);
    absl::StatusOr<poll::CursorPlace> dead = engine_->FindTop(table, /*tombstones=*/true);
    if (!dead.ok()) return dead.status();
    poll::SetTombstoneBound(*dead, state);
    state->set_rows_read(run_->rows[table]);
    state->mutable_scan()->set_finished_us(snapshot_time_us_);
    run_->after_key.clear();
    ++run_->table;
  }
  std::vector<std::pair<uint64_t, uint64_t>> progress;
  for (size_t i = 0; i < tables; ++i) {
    progress.emplace_back(run_->rows[i], shapes_[i] ? shapes_[i]->rows_estimated : 0);
  }
  board_.SnapshotProgress(progress, run_->table == tables, absl::Now());
  std::vector<EncodedRun> runs = builder_.TakeFullRuns();
  if (runs.empty()) return false;
  run_->snapshot_bytes += BytesOf(runs);
  batch->events.push_back(SnapshotRows{std::move(runs)});
  if (run_->snapshot_bytes < kBatchBytesMax) return false;
  run_->snapshot_bytes = 0;
  return true;
}

absl::StatusOr<bool> PollSource::EndSnapshot(CaptureBatch* batch) {
  if (absl::Status ended = engine_->EndPoll(); !ended.ok()) return ended;
  head_ = Position::Of(generation_, uint64_t{1});
  EncodedTransaction rest = builder_.Finish(head_, {});
  if (!rest.runs.empty()) batch->events.push_back(SnapshotRows{std::move(rest.runs)});
  batch->events.push_back(SnapshotWhole{head_});
  done_ = std::move(work_);
  done_.set_polls(1);
  done_.set_clock_us(snapshot_time_us_);
  const absl::Time now = absl::Now();
  batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
  batch->notice = std::exchange(notice_, "");
  checkpointed_ = now;
  to_show_ = {.began = run_->began,
              .took = now - run_->began,
              .rows_read = run_->rows_read,
              .changes = 0,
              .moment = run_->moment};
  schedule_.Ended(now, false);
  run_.reset();
  conflicts_ = 0;
  Enter(Phase::kWaiting, v1::SOURCE_STATE_SNAPSHOT, "storing the rows that were read");
  return true;
}

// ---- Every other one.

absl::StatusOr<bool> PollSource::BeginNext(absl::Time deadline, CaptureBatch* /*batch*/) {
  const absl::Time due = schedule_.Due();
  if (due > absl::Now()) return Wait(std::min(deadline, due));
  if (absl::Status begun = BeginRun(); !begun.ok()) return begun;
  if (stop_.time && run_->moment.clock > *stop_.time) {
    if (absl::Status ended = engine_->EndPoll(); !ended.ok()) return ended;
    run_.reset();
    schedule_.Reset(done_.polls());
    stop_.bound = Position::Of(generation_, done_.polls());
    return false;
  }
  Enter(Phase::kPolling, v1::SOURCE_STATE_STREAMING, "polling");
  return false;
}

absl::StatusOr<bool> PollSource::StepPoll(CaptureBatch* batch) {
  if (run_->table == settings_->tables.size()) return EndPoll(batch);
  const size_t table = run_->table;
  absl::Status status;
  bool done = false;
  if (!run_->polled) {
    run_->polled.emplace(poll::TablePoll::Lent{.settings = &*settings_,
                                               .engine = engine_.get(),
                                               .comparison = comparison_.get(),
                                               .state = StateOf(&work_, table)},
                         table);
    status = run_->polled->Begin();
    if (status.ok()) {
      shapes_[table] = run_->polled->shape();
      Announce(run_->polled->shape().schema, batch);
    }
  } else {
    poll::ChangeSink sink(&builder_, WantsBefore(table));
    absl::StatusOr<bool> stepped = run_->polled->Step(&sink);
    status = stepped.status();
    done = stepped.ok() && *stepped;
  }
  if (!status.ok()) {
    if (absl::Status left = LeaveOut(table, status, &work_); !left.ok()) return left;
    done = true;
  } else if (done) {
    StateOf(&work_, table)->clear_error_reason();
    StateOf(&work_, table)->clear_error_message();
    StateOf(&work_, table)->clear_error_position();
    StateOf(&work_, table)->clear_error_time_us();
  }
  if (done) {
    run_->rows_read += run_->polled->rows_read();
    run_->polled.reset();
    ++run_->table;
  }
  if (!builder_.PassesBound()) return false;
  std::vector<EncodedRun> runs = builder_.TakeFullRuns();
  if (runs.empty()) return false;
  if (!std::exchange(run_->large, true)) ++handle_;
  batch->events.push_back(LargePart{handle_, std::move(runs)});
  return true;
}

void PollSource::HandOver(CaptureBatch* batch) {
  v1::CommitRecord record;
  record.set_origin(v1::ORIGIN_SOURCE);
  record.set_commit_time_us(done_.clock_us());
  record.set_source_transaction_id(fmt::format("poll {}", done_.polls()));
  EncodedTransaction transaction = builder_.Finish(head_, std::move(record));
  if (!run_->large) {
    batch->events.push_back(TransactionRead{std::move(transaction)});
    return;
  }
  if (!transaction.runs.empty()) {
    batch->events.push_back(LargePart{handle_, std::move(transaction.runs)});
  }
  batch->events.push_back(LargeCommitted{handle_, head_, std::move(transaction.record)});
}

void PollSource::NoteSight() {
  PollSight& sight = sight_.emplace();
  sight.poll = done_.polls();
  sight.snapshot = run_->moment.snapshot;
  sight.complete = run_->tells_all && !run_->moment.in_recovery;
  for (const v1::PolledTableState& state : done_.tables()) {
    if (!state.error_reason().empty()) sight.complete = false;
  }
}

absl::StatusOr<bool> PollSource::EndPoll(CaptureBatch* batch) {
  if (absl::Status refused = AllRefused(work_); !refused.ok()) return refused;
  const absl::Time now = absl::Now();
  const bool wanted = schedule_.IsWanted();
  work_.set_polls(done_.polls() + 1);
  work_.set_clock_us(absl::ToUnixMicros(run_->moment.clock));
  for (int table = 0; run_->tells_all && table < done_.tables_size(); ++table) {
    poll::SetBound(poll::BoundOf(done_.tables(table)), work_.mutable_tables(table));
    poll::SetTombstoneBound(poll::TombstoneBoundOf(done_.tables(table)),
                            work_.mutable_tables(table));
  }
  done_ = std::move(work_);
  NoteSight();
  head_ = Position::Of(generation_, done_.polls());
  const uint64_t changes = builder_.changes();
  if (changes > 0) HandOver(batch);
  BeginDueScans();
  schedule_.Ended(now, IsScanning());
  to_show_ = {.began = run_->began,
              .took = now - run_->began,
              .rows_read = run_->rows_read,
              .changes = changes,
              .moment = run_->moment};
  conflicts_ = 0;
  run_->scan_until = std::max(now + absl::Milliseconds(1), schedule_.Due());
  run_->scan_until = std::min(run_->scan_until, now + poll::kScanSliceMax);
  Enter(Phase::kScanning, v1::SOURCE_STATE_STREAMING, "polling");
  const bool due = changes > 0 || wanted || !notice_.empty() || !batch->events.empty() ||
                   now - checkpointed_ >= poll::kProgressPeriod;
  if (due) {
    batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
    batch->notice = std::exchange(notice_, "");
    checkpointed_ = now;
  } else {
    ShowStored();
  }
  // No lock and no snapshot is held at the source while what was read is stored.
  return IsScanning() ? absl::StatusOr<bool>(due) : EndScans(batch);
}

}  // namespace tidemark::capture
