#include "capture/postgres/source_status.h"

#include <algorithm>
#include <utility>

#include "capture/snapshot_status.h"
#include "proto/timestamps.h"

namespace tidemark::capture::postgres {
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
    BeginSnapshotStatus(now, &snapshot_);
    snapshot_started_ = now;
  }
  SnapshotProgress(tables, now);
}

void SourceStatus::SnapshotProgress(const std::vector<SnapshotTable>& tables, absl::Time now) {
  std::lock_guard lock(mutex_);
  std::vector<SnapshotTableRows> rows;
  for (const SnapshotTable& table : tables) {
    rows.push_back({.table = table.table.Text(),
                    .done = table.rows_done,
                    .estimated = table.table.rows_estimated,
                    .finished = table.finished});
  }
  FillSnapshotStatus(rows, snapshot_started_, now, &snapshot_);
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
  *slot_.mutable_seen() = ToTimestamp(now);
  wal_rate_.Look(slot.server_flush, now);
  slot_.clear_headroom_time();
  if (const auto lasts = wal_rate_.TimeFor(slot_.headroom_bytes());
      lasts && slot_.has_headroom_bytes()) {
    *slot_.mutable_headroom_time() = ToEstimate(*lasts);
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
  *lag->mutable_time() = ToDuration(behind);
  if (heard_ != absl::InfinitePast()) *lag->mutable_heard() = ToTimestamp(heard_);
}

}  // namespace tidemark::capture::postgres
