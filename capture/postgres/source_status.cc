#include "capture/postgres/source_status.h"

#include <algorithm>
#include <utility>

namespace tidemark::capture::postgres {
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

}  // namespace

SourceStatus::SourceStatus(std::string slot, std::string publication) {
  slot_.set_name(std::move(slot));
  slot_.set_publication(std::move(publication));
}

void SourceStatus::SetState(v1::SourceState state, std::string detail) {
  std::lock_guard lock(mutex_);
  state_ = state;
  detail_ = std::move(detail);
}

v1::SourceState SourceStatus::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void SourceStatus::SnapshotBegan(const std::vector<SnapshotTable>& tables, absl::Time now) {
  {
    std::lock_guard lock(mutex_);
    snapshot_.Clear();
    snapshot_started_ = now;
    SetTime(now, snapshot_.mutable_started());
  }
  SnapshotProgress(tables, now);
}

void SourceStatus::SnapshotProgress(const std::vector<SnapshotTable>& tables, absl::Time now) {
  std::lock_guard lock(mutex_);
  snapshot_.clear_tables();
  uint64_t done = 0;
  uint64_t estimated = 0;
  bool finished = true;
  for (const SnapshotTable& table : tables) {
    v1::TableSnapshotStatus* status = snapshot_.add_tables();
    status->set_table(table.table.Text());
    status->set_rows_done(table.rows_done);
    // What was read is the better estimate once it is all there is.
    const uint64_t estimate =
        table.finished ? table.rows_done : std::max(table.table.rows_estimated, table.rows_done);
    status->set_rows_estimated(estimate);
    status->set_finished(table.finished);
    done += table.rows_done;
    estimated += estimate;
    finished &= table.finished;
  }
  snapshot_.set_rows_done(done);
  snapshot_.set_rows_estimated(estimated);
  const double seconds = absl::ToDoubleSeconds(now - snapshot_started_);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  snapshot_.set_rows_per_second(rate);
  snapshot_.clear_remaining();
  if (rate > 0 && !finished) {
    SetDuration(absl::Seconds(static_cast<double>(estimated - done) / rate),
                snapshot_.mutable_remaining());
  }
  if (finished) SetTime(now, snapshot_.mutable_finished());
  heard_ = now;
}

void SourceStatus::Progress(Lsn proved, Lsn server, int64_t newest_commit_us, absl::Time now) {
  std::lock_guard lock(mutex_);
  proved_ = proved;
  server_ = std::max(server_, server);
  newest_commit_us_ = newest_commit_us;
  heard_ = now;
  if (proved_ >= server_) caught_up_ = now;
}

void SourceStatus::Slot(const SlotFacts& slot, absl::Time now) {
  std::lock_guard lock(mutex_);
  FillSlotStatus(slot, &slot_);
  wal_rate_.Look(slot.server_flush, now);
  slot_.clear_headroom_time();
  if (const auto lasts = wal_rate_.TimeFor(slot_.headroom_bytes());
      lasts && slot_.has_headroom_bytes()) {
    SetDuration(*lasts, slot_.mutable_headroom_time());
  }
  server_ = std::max(server_, slot.server_flush);
}

void SourceStatus::GoesOnBehind(Lsn start) {
  std::lock_guard lock(mutex_);
  proved_ = server_ = start;
  newest_commit_us_ = 0;
}

void SourceStatus::Fill(v1::FeedStatus* status, absl::Time now) const {
  std::lock_guard lock(mutex_);
  status->set_source_state(state_);
  status->set_detail(detail_);
  *status->mutable_slot() = slot_;
  if (snapshot_.has_started()) *status->mutable_snapshot() = snapshot_;
  v1::Lag* lag = status->mutable_lag();
  lag->set_bytes(server_ > proved_ ? server_ - proved_ : 0);
  absl::Duration behind = absl::ZeroDuration();
  if (lag->bytes() > 0) {
    // What is outstanding is not older than the last moment at which nothing was.
    const absl::Time newest =
        newest_commit_us_ == 0 ? absl::InfinitePast() : absl::FromUnixMicros(newest_commit_us_);
    const absl::Time since = std::max(newest, caught_up_);
    if (since != absl::InfinitePast()) behind = std::max(now - since, absl::ZeroDuration());
  }
  SetDuration(behind, lag->mutable_time());
  if (heard_ != absl::InfinitePast()) SetTime(heard_, lag->mutable_heard());
}

}  // namespace tidemark::capture::postgres
