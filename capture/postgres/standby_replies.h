// When to tell the server how far we are, and what. Pure: time is an argument.
#pragma once

#include "absl/time/time.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/replication_message.h"

namespace tidemark::capture::postgres {

// Longest time between two replies, while the server's own patience is longer than three of them.
inline constexpr absl::Duration kReplyPeriodMax = absl::Seconds(10);
// A server that never gives up is still answered.
inline constexpr int kRepliesPerTimeout = 3;
// Under load every fsync confirms something; the slot need not move each time.
inline constexpr absl::Duration kConfirmSpacing = absl::Milliseconds(50);

// `written` is how far the walsender has come, by its own word, and is echoed. `flushed` is what is
// durable here: the slot moves to it, and what lies before it is never sent again. The two are
// never mixed. A fast shutdown of the server must not wait for our store (K9): a reply that the
// server asked for, while something is not durable yet, says nothing of `flushed` (0), and then the
// server is content with `written`. One thread at a time.
class StandbyReplies {
 public:
  StandbyReplies(Lsn start, absl::Duration wal_sender_timeout, absl::Time now);

  void Heard(Lsn written);
  void Confirmed(Lsn durable);
  // The server wants a reply at once.
  void Requested() { requested_ = true; }

  // When the next reply is to be sent; in the past when it is due.
  absl::Time NextDue() const;
  // The reply, which counts as sent. With `ask` the server answers at once, also when it has
  // nothing to say: the proof that it lives and how far it has come (K5).
  StandbyStatus Take(absl::Time now, bool ask);

  absl::Duration period() const { return period_; }
  // Something was confirmed that the server was not told yet.
  bool owes_confirmation() const { return flushed_ > flushed_sent_; }

 private:
  absl::Duration period_;
  absl::Time sent_;
  Lsn written_;
  Lsn flushed_;
  Lsn flushed_sent_ = 0;
  bool requested_ = true;  // the first reply at once: it tells the server that somebody is there
};

}  // namespace tidemark::capture::postgres
