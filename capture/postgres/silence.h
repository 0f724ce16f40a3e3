// When a server that is connected counts as gone. Pure: time is an argument.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace tidemark::capture::postgres {

// A silent server is asked for a sign of life this many times before it is given up.
inline constexpr int kAsksPerSilence = 3;

// Every byte is a sign of life, not only a whole message: a large one may be long on its way, and
// meanwhile the server can say nothing else. The clock stands still while nobody listens, and never
// runs out before the server was asked. One thread at a time.
class Silence {
 public:
  Silence(absl::Duration timeout, absl::Time now) : timeout_(timeout), heard_(now), asked_(now) {}

  // Bytes came.
  void Heard(absl::Time now) { heard_ = now; }
  // The server was asked to answer at once.
  void Asked(absl::Time now) { asked_ = now; }
  // Nobody listened for so long.
  void NotListened(absl::Duration duration) { heard_ += duration; }

  absl::Time ask_due() const { return std::max(heard_, asked_) + timeout_ / kAsksPerSilence; }
  absl::Time give_up_due() const {
    if (asked_ <= heard_) return absl::InfiniteFuture();
    return std::max(heard_ + timeout_, asked_ + timeout_ / kAsksPerSilence);
  }
  absl::Duration Lasted(absl::Time now) const { return now - heard_; }

 private:
  absl::Duration timeout_;
  absl::Time heard_;
  absl::Time asked_;
};

}  // namespace tidemark::capture::postgres
