// What a poll saw and told, for those who look for its end in the log. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace tidemark::capture {

struct PollSight {
  // Its number.
  uint64_t poll = 0;
  // pg_current_snapshot() of its transaction.
  std::string snapshot;
  // False: it was taken on a standby, where that text leaves out which transactions were running;
  // or a table was left out.
  bool complete = true;
};

}  // namespace tidemark::capture
