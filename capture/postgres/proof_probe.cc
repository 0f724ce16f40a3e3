#include "capture/postgres/proof_probe.h"

#include <algorithm>

namespace tidemark::capture::postgres {

void ProofProbe::Want(const std::optional<Lsn>& upto) {
  if (upto == wanted_) return;
  wanted_ = upto;
  due_ = absl::InfinitePast();
  wait_ = kProbeWaitFirst;
}

void ProofProbe::Asked(absl::Time now) {
  due_ = now + wait_;
  wait_ = std::min(2 * wait_, kProbeWaitLongest);
}

absl::Time ProofProbe::NextDue(Lsn proved) const {
  return wanted_ && proved < *wanted_ ? due_ : absl::InfiniteFuture();
}

bool ProofProbe::HasNews(Lsn proved, Lsn handed_over) const {
  return wanted_ && proved >= *wanted_ && handed_over < *wanted_;
}

}  // namespace tidemark::capture::postgres
