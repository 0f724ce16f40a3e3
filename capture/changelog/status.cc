#include "capture/changelog/status.h"

#include <algorithm>
#include <utility>

#include "proto/timestamps.h"

namespace tidemark::capture::changelog {

void Status::SetState(v1::SourceState state, std::string detail) {
  std::lock_guard lock(mutex_);
  state_ = state;
  detail_ = std::move(detail);
  pulling_ = false;
}

void Status::Reads(const Settings& settings) {
  std::lock_guard lock(mutex_);
  changelog_.set_table(settings.TableText());
  changelog_.set_strategy(std::string(StrategyWord(settings.strategy)));
}

void Status::PullBegan(absl::Time now) {
  std::lock_guard lock(mutex_);
  pulling_ = true;
  heard_ = now;
}

void Status::PullEnded(const PullReport& report, absl::Time now) {
  std::lock_guard lock(mutex_);
  changelog_.set_snapshot(report.snapshot);
  changelog_.set_highest_seq(std::max(changelog_.highest_seq(), report.highest_seq));
  changelog_.set_pulls(changelog_.pulls() + 1);
  *changelog_.mutable_last_began() = ToTimestamp(report.began);
  changelog_.set_last_rows_read(report.rows_read);
  changelog_.clear_watermark_xid();
  if (report.watermark) changelog_.set_watermark_xid(*report.watermark);
  changelog_.set_held_by(report.held_by);
  changelog_.set_waiting_rows(report.waiting_rows);
  pulling_ = false;
  heard_ = now;
  if (report.waiting_rows == 0) caught_up_ = report.began;
}

void Status::Trimmed(uint64_t rows) {
  std::lock_guard lock(mutex_);
  changelog_.set_rows_trimmed(changelog_.rows_trimmed() + rows);
}

void Status::Fill(v1::FeedStatus* status, absl::Time now) const {
  std::lock_guard lock(mutex_);
  status->set_source_state(state_);
  status->set_detail(detail_);
  *status->mutable_changelog() = changelog_;
  v1::Lag* lag = status->mutable_lag();
  // What waits is not older than the last moment at which nothing did.
  const bool behind = pulling_ || changelog_.waiting_rows() > 0;
  if (behind && caught_up_ != absl::InfinitePast()) {
    *lag->mutable_time() = ToDuration(std::max(now - caught_up_, absl::ZeroDuration()));
  } else {
    *lag->mutable_time() = ToDuration(absl::ZeroDuration());
  }
  if (heard_ != absl::InfinitePast()) *lag->mutable_heard() = ToTimestamp(heard_);
}

}  // namespace tidemark::capture::changelog
