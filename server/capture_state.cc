#include "server/capture_state.h"

#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/recovery.h"

namespace tidemark {
namespace {

v1::StatusError Describe(const absl::Status& error, bool retried, uint32_t attempts,
                         absl::Time now) {
  v1::StatusError described;
  described.set_reason(ReasonOf(error));
  described.set_message(std::string(error.message()));
  *described.mutable_at() = ToTimestamp(now);
  described.set_retried(retried);
  described.set_attempts(attempts);
  return described;
}

}  // namespace

void CaptureState::Running() {
  std::lock_guard lock(mutex_);
  phase_ = CapturePhase::kRunning;
}

void CaptureState::Retrying(const absl::Status& error, uint32_t attempts, absl::Time now) {
  auto described = Describe(error, true, attempts, now);
  std::lock_guard lock(mutex_);
  phase_ = CapturePhase::kWaiting;
  error_ = std::move(described);
}

void CaptureState::Failed(const absl::Status& error, absl::Time now) {
  auto described = Describe(error, false, 1, now);
  std::lock_guard lock(mutex_);
  phase_ = CapturePhase::kFailed;
  error_ = std::move(described);
}

void CaptureState::Stopped() {
  std::lock_guard lock(mutex_);
  // A feed that needs a person stays red to the end.
  if (phase_ == CapturePhase::kFailed || phase_ == CapturePhase::kFinished ||
      phase_ == CapturePhase::kPaused) {
    return;
  }
  phase_ = CapturePhase::kStopped;
}

void CaptureState::Finished(std::string detail) {
  std::lock_guard lock(mutex_);
  phase_ = CapturePhase::kFinished;
  detail_ = std::move(detail);
  error_.reset();
}

void CaptureState::Paused(std::string detail) {
  std::lock_guard lock(mutex_);
  phase_ = CapturePhase::kPaused;
  detail_ = std::move(detail);
  error_.reset();
}

void CaptureState::Healthy() {
  std::lock_guard lock(mutex_);
  error_.reset();
}

void CaptureState::Count(const Appended& appended) {
  std::lock_guard lock(mutex_);
  total_.transactions += appended.transactions;
  total_.changes += appended.changes;
  if (!appended.newest) return;
  total_.newest = appended.newest;
  total_.newest_commit_time_us = appended.newest_commit_time_us;
}

CapturePhase CaptureState::phase() const {
  std::lock_guard lock(mutex_);
  return phase_;
}

void CaptureState::Fill(v1::FeedStatus* status) const {
  std::lock_guard lock(mutex_);
  status->set_transactions_captured(total_.transactions);
  status->set_changes_captured(total_.changes);
  if (error_) *status->mutable_last_error() = *error_;
  switch (phase_) {
    case CapturePhase::kStarting:
      status->set_source_state(v1::SOURCE_STATE_STARTING);
      break;
    case CapturePhase::kRunning:
      break;
    case CapturePhase::kWaiting:
      status->set_source_state(v1::SOURCE_STATE_CONNECTING);
      status->set_detail("waiting to try again after " + error_->reason());
      break;
    case CapturePhase::kFailed:
      status->set_source_state(v1::SOURCE_STATE_FAILED);
      status->set_detail("stopped by " + error_->reason() + "; see last_error" +
                         (IsBreak(error_->reason()) ? "" : ", then tidemark feed resume"));
      break;
    case CapturePhase::kStopped:
      status->set_source_state(v1::SOURCE_STATE_PAUSED);
      status->set_detail("the server is stopping");
      break;
    case CapturePhase::kFinished:
      status->set_source_state(v1::SOURCE_STATE_FINISHED);
      status->set_detail(detail_);
      break;
    case CapturePhase::kPaused:
      status->set_source_state(v1::SOURCE_STATE_PAUSED);
      status->set_detail(detail_);
      break;
  }
}

std::optional<int64_t> CaptureState::CommitTimeUs(const Position& position) const {
  std::lock_guard lock(mutex_);
  if (total_.newest != position) return std::nullopt;
  return total_.newest_commit_time_us;
}

}  // namespace tidemark
