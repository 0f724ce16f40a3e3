// How fast the server's log grows, and so how long what is left of it lasts. Pure; owned by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

// The growth of the last minute counts.
inline constexpr absl::Duration kWalRatePeriod = absl::Minutes(1);
inline constexpr size_t kWalRateLooksMax = 64;

class WalRate {
 public:
  // The log ended at `end`. A look at an earlier end begins anew: it is another history.
  void Look(Lsn end, absl::Time now);
  // How long it takes the log to grow by `bytes`; nullopt where it did not grow.
  std::optional<absl::Duration> TimeFor(uint64_t bytes) const;

 private:
  struct Seen {
    Lsn end = 0;
    absl::Time at;
  };
  std::deque<Seen> looks_;
};

}  // namespace tidemark::capture::postgres
