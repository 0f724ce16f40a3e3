#include "capture/changelog/status.h"

#include <algorithm>
#include <utility>

namespace tidemark::capture::changelog {
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
  SetTime(report.began, changelog_.mutable_last_began());
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
    SetDuration(std::max(now - caught_up_, absl::ZeroDuration()), lag->mutable_time());
  } else {
    SetDuration(absl::ZeroDuration(), lag->mutable_time());
  }
  if (heard_ != absl::InfinitePast()) SetTime(heard_, lag->mutable_heard());
}

}  // namespace tidemark::capture::changelog
