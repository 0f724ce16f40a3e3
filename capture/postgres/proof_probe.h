// When to ask a silent server how far it is, because somebody waits for the answer (K5): at once,
// then ever more rarely while it has not come so far. Pure: time is an argument.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

// A server that is not there yet says so by itself when it writes; asking is for the other case.
inline constexpr absl::Duration kProbeWaitFirst = absl::Milliseconds(10);
inline constexpr absl::Duration kProbeWaitLongest = absl::Seconds(1);

// Thread rule: one thread at a time.
class ProofProbe {
 public:
  // Somebody waits until `upto` is proved; nullopt: nobody does.
  void Want(const std::optional<Lsn>& upto);
  void Asked(absl::Time now);

  // When to ask; InfiniteFuture where there is nothing to ask for.
  absl::Time NextDue(Lsn proved) const;
  // What was waited for is proved, and was not handed over as of `handed_over`.
  bool HasNews(Lsn proved, Lsn handed_over) const;

 private:
  std::optional<Lsn> wanted_;
  absl::Time due_ = absl::InfinitePast();
  absl::Duration wait_ = kProbeWaitFirst;
};

}  // namespace tidemark::capture::postgres
