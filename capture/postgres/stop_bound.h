// Where a read of PostgreSQL's log ends: which transactions belong to it, and when it is proved
// that none of them is missing. Pure.
//
// A transaction is included iff its END is at or before the bound. Only ends are compared with the
// bound, but for one fact that follows from the order of commits: where a commit record begins at
// or behind the bound, every transaction that ends at or before the bound was sent already.
//
//   what is seen                        while                  decision
//   commit record begins >= bound       (Begin)                stop, nothing of it belongs here
//   commit record begins < bound        (Begin)                hold its rows until its end is known
//   commit ends <= bound                in a transaction       release; stop where it ends AT the
//   bound commit ends > bound                 in a transaction       drop what is held, stop
//   keepalive >= bound                  between transactions   stop (K1: what ends before it was
//   sent) keepalive                           in a transaction       nothing: that transaction's
//   end decides
//
// Neither time, nor silence, nor where the server's log ends, nor what another consumer has read
// proves anything.
#pragma once

#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

enum class BoundDecision {
  // Nothing is decided.
  kGoOn,
  // The rows that follow may be handed over once their commit is released, not before.
  kHold,
  // The transaction that just ended is included.
  kRelease,
  // The same, and it was the last.
  kReleaseAndStop,
  // The bound is reached; rows that are held never were.
  kStop,
};

// One per connection. Thread rule: one thread at a time.
class StopBound {
 public:
  // Everything that ends at or before `start` was read before. REQUIRES: start <= bound.
  StopBound(Lsn start, Lsn bound);

  BoundDecision OnBegin(Lsn commit_lsn);
  // REQUIRES: the last OnBegin was of this transaction.
  BoundDecision OnCommit(Lsn commit_lsn, Lsn end_lsn);
  // The first keepalive of a connection repeats what was confirmed before (K3): it lies at or
  // before `start`, and so adds nothing.
  BoundDecision OnKeepalive(Lsn end);

  Lsn bound() const { return bound_; }
  // Every included transaction was released, and there can be no other.
  bool reached() const { return reached_; }
  // From where a later read goes on without loss or repeat. Never behind the bound; before it where
  // the commit record of the first excluded transaction begins before it: the server passes over
  // every transaction whose commit record begins before the place at which it is asked to start
  // (E7). REQUIRES: reached().
  Lsn resume() const { return resume_; }

 private:
  BoundDecision Stop(BoundDecision decision, Lsn resume);

  const Lsn bound_;
  Lsn resume_;
  bool in_transaction_ = false;
  bool reached_;
};

}  // namespace tidemark::capture::postgres
