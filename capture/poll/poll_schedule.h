// When the next poll begins, and which one proves what. Pure; owned by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"

namespace tidemark::capture::poll {

// While all keys of a table are compared, what polls tell must not grow old meanwhile, nor must a
// snapshot be held for long.
inline constexpr absl::Duration kScanSliceMax = absl::Seconds(1);
// Between two polls that somebody waits for.
inline constexpr absl::Duration kDemandGap = absl::Milliseconds(20);
// What a scan did not read adds up for so long: so much more than its rate it may read in a second.
inline constexpr absl::Duration kBudgetSpan = absl::Milliseconds(200);
// An idle feed writes how far it is that often at most.
inline constexpr absl::Duration kProgressPeriod = absl::Seconds(1);

// Polls are numbered from 1 on.
class PollSchedule {
 public:
  // `delay`: rows stamped so shortly before the clock wait for a later poll.
  PollSchedule(absl::Duration interval, absl::Duration delay)
      : interval_(interval), delay_(delay) {}

  // `ended` polls were there. What was sampled holds on.
  void Reset(uint64_t ended);
  void Began();
  void Ended(absl::Time now, bool scanning);
  uint64_t ended() const { return ended_; }

  // The poll whose end proves that everything that was stamped by `now` was told: one that has not
  // begun, and does not begin before `delay` has passed.
  uint64_t Sample(absl::Time now);
  // The next poll is not waited for.
  void Hurry() { next_ = absl::InfinitePast(); }
  // A poll that was begun is not counted, and comes again at `again`.
  void GaveUp(absl::Time again);
  // Somebody waits for the end of this poll.
  void Want(std::optional<uint64_t> poll) { wanted_ = poll; }
  bool IsWanted() const { return wanted_ && *wanted_ > ended_; }
  absl::Time Due() const;

 private:
  const absl::Duration interval_;
  const absl::Duration delay_;
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  absl::Time ended_at_ = absl::InfinitePast();
  absl::Time next_ = absl::InfinitePast();
  std::optional<uint64_t> wanted_;
  // Not to begin before.
  std::map<uint64_t, absl::Time> not_before_;
};

// How many rows may be read now at `rows_per_second`, beside what adds up in kBudgetSpan. Pure.
class RowBudget {
 public:
  explicit RowBudget(uint32_t rows_per_second);

  uint32_t Available(absl::Time now);
  void Take(uint64_t rows) { left_ -= static_cast<double>(rows); }
  // When so many rows are available.
  absl::Time Next(absl::Time now, uint32_t rows) const;

 private:
  const double rows_per_second_;
  const double most_;
  double left_ = 0;
  absl::Time filled_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::poll
