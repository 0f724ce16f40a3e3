#include "capture/poll/poll_schedule.h"

#include <algorithm>

namespace tidemark::capture::poll {

void PollSchedule::Reset(uint64_t ended) {
  begun_ = ended_ = ended;
  ended_at_ = next_ = absl::InfinitePast();
  not_before_.erase(not_before_.begin(), not_before_.upper_bound(ended));
}

void PollSchedule::Began() {
  ++begun_;
  not_before_.erase(not_before_.begin(), not_before_.upper_bound(begun_));
}

void PollSchedule::Ended(absl::Time now, bool scanning) {
  ended_ = begun_;
  ended_at_ = now;
  next_ = now + (scanning ? std::min(interval_, kScanSliceMax) : interval_);
}

void PollSchedule::GaveUp(absl::Time again) {
  begun_ = ended_;
  ended_at_ = next_ = again;
}

uint64_t PollSchedule::Sample(absl::Time now) {
  // One that is held back for an earlier sample is not held back again, or it might never begin.
  const uint64_t poll = not_before_.contains(begun_ + 1) ? begun_ + 2 : begun_ + 1;
  not_before_[poll] = now + delay_;
  return poll;
}

absl::Time PollSchedule::Due() const {
  absl::Time due = next_;
  if (IsWanted()) due = std::min(due, ended_at_ + kDemandGap);
  const auto held = not_before_.find(begun_ + 1);
  return held == not_before_.end() ? due : std::max(due, held->second);
}

RowBudget::RowBudget(uint32_t rows_per_second)
    : rows_per_second_(rows_per_second),
      most_(std::max(1.0, rows_per_second * absl::ToDoubleSeconds(kBudgetSpan))) {}

uint32_t RowBudget::Available(absl::Time now) {
  if (filled_ == absl::InfinitePast()) {
    left_ = most_;
  } else if (now > filled_) {
    left_ = std::min(most_, left_ + rows_per_second_ * absl::ToDoubleSeconds(now - filled_));
  }
  filled_ = std::max(filled_, now);
  return left_ < 1 ? 0 : static_cast<uint32_t>(left_);
}

absl::Time RowBudget::Next(absl::Time now, uint32_t rows) const {
  if (left_ >= rows) return now;
  // Rounded up, so that they are there then.
  return now + absl::Seconds((rows - left_) / rows_per_second_) + absl::Microseconds(1);
}

}  // namespace tidemark::capture::poll
