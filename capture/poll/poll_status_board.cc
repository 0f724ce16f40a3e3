#include "capture/poll/poll_status_board.h"

#include <algorithm>

#include "proto/table_name.h"

namespace tidemark::capture::poll {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp* out) {
  const int64_t nanos = absl::ToUnixNanos(time);
  out->set_seconds(nanos / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* out) {
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  out->set_seconds(nanos / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

void FillScan(const v1::KeyScanState& scan, v1::KeyScanStatus* out) {
  out->set_running(scan.running());
  out->set_rows_read(scan.rows_read());
  out->set_missing(scan.missing());
  out->set_extra(scan.extra());
  out->set_different(scan.different());
  if (scan.started_us() > 0) {
    SetTime(absl::FromUnixMicros(scan.started_us()), out->mutable_started());
  }
  if (scan.finished_us() > 0) {
    SetTime(absl::FromUnixMicros(scan.finished_us()), out->mutable_finished());
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

}  // namespace

PollStatusBoard::PollStatusBoard(const PollSettings& settings) : settings_(settings) {
  SetDuration(settings_.overlap, poll_.mutable_overlap());
}

void PollStatusBoard::SetState(v1::SourceState state, std::string detail) {
  std::lock_guard lock(mutex_);
  state_ = state;
  detail_ = std::move(detail);
}

void PollStatusBoard::SnapshotBegan(absl::Time now) {
  std::lock_guard lock(mutex_);
  snapshot_.Clear();
  snapshot_began_ = now;
  SetTime(now, snapshot_.mutable_started());
}

void PollStatusBoard::SnapshotProgress(const std::vector<std::pair<uint64_t, uint64_t>>& rows,
                                       bool whole, absl::Time now) {
  std::lock_guard lock(mutex_);
  snapshot_.clear_tables();
  uint64_t done = 0;
  uint64_t estimated = 0;
  for (size_t table = 0; table < rows.size(); ++table) {
    v1::TableSnapshotStatus* status = snapshot_.add_tables();
    status->set_table(settings_.tables[table].Text());
    status->set_rows_done(rows[table].first);
    const uint64_t estimate =
        whole ? rows[table].first : std::max(rows[table].first, rows[table].second);
    status->set_rows_estimated(estimate);
    status->set_finished(whole);
    done += rows[table].first;
    estimated += estimate;
  }
  snapshot_.set_rows_done(done);
  snapshot_.set_rows_estimated(estimated);
  const double seconds = absl::ToDoubleSeconds(now - snapshot_began_);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  snapshot_.set_rows_per_second(rate);
  snapshot_.clear_remaining();
  if (whole) {
    SetTime(now, snapshot_.mutable_finished());
  } else if (rate > 0) {
    SetDuration(absl::Seconds(static_cast<double>(estimated - done) / rate),
                snapshot_.mutable_remaining());
  }
  heard_ = now;
}

void PollStatusBoard::Polled(const PollTally& tally) {
  std::lock_guard lock(mutex_);
  SetTime(tally.began, poll_.mutable_last_began());
  SetDuration(tally.took, poll_.mutable_last_took());
  poll_.set_last_rows_read(tally.rows_read);
  poll_.set_last_changes(tally.changes);
  SetDuration(settings_.overlap + tally.moment.replay_lag, poll_.mutable_overlap());
  poll_.clear_overlap_needed();
  if (tally.moment.oldest_writer) {
    SetDuration(*tally.moment.oldest_writer, poll_.mutable_overlap_needed());
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
  SetTime(heard_, lag->mutable_heard());
  // What is stamped later than that may be there, and is not told yet.
  SetDuration(std::max(absl::ZeroDuration(), now - heard_ - settings_.interval),
              lag->mutable_time());
}

}  // namespace tidemark::capture::poll
