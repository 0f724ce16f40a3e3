#include "capture/poll/poll_status_board.h"

#include <fmt/format.h>

#include <algorithm>

#include "capture/poll_text.h"
#include "capture/snapshot_status.h"
#include "proto/position.h"
#include "proto/table_name.h"
#include "proto/timestamps.h"

namespace tidemark::capture::poll {
namespace {

void FillScan(const v1::KeyScanState& scan, v1::KeyScanStatus* out) {
  out->set_running(scan.running());
  out->set_rows_read(scan.rows_read());
  out->set_missing(scan.missing());
  out->set_extra(scan.extra());
  out->set_different(scan.different());
  if (scan.started_us() > 0) {
    *out->mutable_started() = ToTimestamp(absl::FromUnixMicros(scan.started_us()));
  }
  if (scan.finished_us() > 0) {
    *out->mutable_finished() = ToTimestamp(absl::FromUnixMicros(scan.finished_us()));
  }
}

v1::PolledTableStatus StatusOf(const v1::PolledTableState& state) {
  v1::PolledTableStatus status;
  status.set_table(TableNameText(state.schema_name(), state.table_name()));
  status.set_cursor_column(state.cursor_column());
  status.set_bound(state.bound_cursor());
  status.set_rows_read(state.rows_read());
  status.set_late_rows(state.late_rows());
  status.set_null_cursors(state.null_cursors());
  status.set_poison_rows(state.poison_rows());
  *status.mutable_poison_keys() = state.poison_keys();
  if (state.has_scan()) FillScan(state.scan(), status.mutable_scan());
  return status;
}

void FillSince(const v1::PolledTableState& state, v1::TableProblem* problem) {
  const auto position = Position::FromBytes(state.error_position());
  if (!position.ok()) return;
  v1::PositionStatus* since = problem->mutable_since();
  since->set_position(position->Text());
  since->set_native_position(PollText(*position));
  // No poll has ended yet.
  if (state.error_time_us() == 0) return;
  *since->mutable_commit_time() = ToTimestamp(absl::FromUnixMicros(state.error_time_us()));
}

}  // namespace

PollStatusBoard::PollStatusBoard(const PollSettings& settings) : settings_(settings) {
  *poll_.mutable_overlap() = ToDuration(settings_.overlap);
}

void PollStatusBoard::SetState(v1::SourceState state, std::string detail) {
  std::lock_guard lock(mutex_);
  state_ = state;
  detail_ = std::move(detail);
}

void PollStatusBoard::SnapshotBegan(absl::Time now) {
  std::lock_guard lock(mutex_);
  BeginSnapshotStatus(now, &snapshot_);
  snapshot_began_ = now;
}

void PollStatusBoard::SnapshotProgress(const std::vector<std::pair<uint64_t, uint64_t>>& rows,
                                       bool whole, absl::Time now) {
  std::lock_guard lock(mutex_);
  std::vector<SnapshotTableRows> tables;
  for (size_t table = 0; table < rows.size(); ++table) {
    tables.push_back({.table = settings_.tables[table].Text(),
                      .done = rows[table].first,
                      .estimated = rows[table].second,
                      .finished = whole});
  }
  FillSnapshotStatus(tables, snapshot_began_, now, &snapshot_);
  heard_ = now;
}

void PollStatusBoard::Polled(const PollTally& tally) {
  std::lock_guard lock(mutex_);
  *poll_.mutable_last_began() = ToTimestamp(tally.began);
  *poll_.mutable_last_took() = ToDuration(tally.took);
  poll_.set_last_rows_read(tally.rows_read);
  poll_.set_last_changes(tally.changes);
  *poll_.mutable_overlap() = ToDuration(settings_.overlap + tally.moment.replay_lag);
  poll_.clear_overlap_needed();
  if (tally.moment.oldest_writer) {
    *poll_.mutable_overlap_needed() = ToDuration(*tally.moment.oldest_writer);
  }
  poll_.set_overlap_held_by(tally.moment.writer);
  heard_ = tally.began + tally.took;
}

void PollStatusBoard::SetTables(const v1::PollCheckpoint& checkpoint) {
  std::lock_guard lock(mutex_);
  poll_.set_polls(checkpoint.polls());
  poll_.clear_tables();
  problems_.clear();
  for (const v1::PolledTableState& state : checkpoint.tables()) {
    *poll_.add_tables() = StatusOf(state);
    if (state.error_reason().empty()) continue;
    v1::TableProblem problem;
    problem.set_table(TableNameText(state.schema_name(), state.table_name()));
    problem.set_reason(state.error_reason());
    problem.set_message(state.error_message());
    FillSince(state, &problem);
    problems_.push_back(std::move(problem));
  }
}

void PollStatusBoard::Fill(v1::FeedStatus* status, absl::Time now) const {
  std::lock_guard lock(mutex_);
  status->set_source_state(state_);
  status->set_detail(detail_);
  *status->mutable_poll() = poll_;
  if (snapshot_.has_started()) *status->mutable_snapshot() = snapshot_;
  for (const v1::TableProblem& problem : problems_) *status->add_table_problems() = problem;
  v1::Lag* lag = status->mutable_lag();
  if (heard_ == absl::InfinitePast()) return;
  *lag->mutable_heard() = ToTimestamp(heard_);
  // What is stamped later than that may be there, and is not told yet.
  *lag->mutable_time() =
      ToDuration(std::max(absl::ZeroDuration(), now - heard_ - settings_.interval));
}

}  // namespace tidemark::capture::poll
