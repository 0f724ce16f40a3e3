#include "capture/postgres/standby_replies.h"

#include <algorithm>

namespace tidemark::capture::postgres {

StandbyReplies::StandbyReplies(Lsn start, absl::Duration wal_sender_timeout, absl::Time now)
    : period_(kReplyPeriodMax), sent_(now), written_(start), flushed_(start) {
  if (wal_sender_timeout > absl::ZeroDuration()) {
    period_ = std::min(period_, wal_sender_timeout / kRepliesPerTimeout);
  }
}

void StandbyReplies::Heard(Lsn written) { written_ = std::max(written_, written); }

void StandbyReplies::Confirmed(Lsn durable) { flushed_ = std::max(flushed_, durable); }

absl::Time StandbyReplies::NextDue() const {
  if (requested_) return absl::InfinitePast();
  return sent_ + (owes_confirmation() ? std::min(kConfirmSpacing, period_) : period_);
}

StandbyStatus StandbyReplies::Take(absl::Time now, bool ask) {
  // A server that shuts down waits for "flushed" to reach its end, or for "written" where the reply
  // says nothing of "flushed".
  const bool silent_on_flush = requested_ && !owes_confirmation() && flushed_ < written_;
  sent_ = now;
  requested_ = false;
  flushed_sent_ = flushed_;
  const Lsn flushed = silent_on_flush ? 0 : flushed_;
  // What is durable was written, whatever the server said last.
  return {.written = std::max(written_, flushed_),
          .flushed = flushed,
          .applied = flushed,
          .now_unix_us = absl::ToUnixMicros(now),
          .reply_requested = ask};
}

}  // namespace tidemark::capture::postgres
