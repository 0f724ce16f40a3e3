#include "capture/postgres/stop_bound.h"

namespace tidemark::capture::postgres {

StopBound::StopBound(Lsn start, Lsn bound)
    : bound_(bound), resume_(start), reached_(start >= bound) {}

BoundDecision StopBound::Stop(BoundDecision decision, Lsn resume) {
  reached_ = true;
  resume_ = resume;
  return decision;
}

BoundDecision StopBound::OnBegin(Lsn commit_lsn) {
  if (reached_) return BoundDecision::kStop;
  // Equal counts as behind: the end of this one is behind its beginning, and a transaction that
  // ends at the bound may be followed by this one without a byte between them (E4).
  if (commit_lsn >= bound_) return Stop(BoundDecision::kStop, bound_);
  in_transaction_ = true;
  return BoundDecision::kHold;
}

BoundDecision StopBound::OnCommit(Lsn commit_lsn, Lsn end_lsn) {
  if (reached_) return BoundDecision::kStop;
  in_transaction_ = false;
  if (end_lsn > bound_) return Stop(BoundDecision::kStop, commit_lsn);
  if (end_lsn == bound_) return Stop(BoundDecision::kReleaseAndStop, bound_);
  return BoundDecision::kRelease;
}

BoundDecision StopBound::OnKeepalive(Lsn end) {
  if (reached_) return BoundDecision::kStop;
  if (in_transaction_ || end < bound_) return BoundDecision::kGoOn;
  return Stop(BoundDecision::kStop, bound_);
}

}  // namespace tidemark::capture::postgres
