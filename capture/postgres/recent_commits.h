// Commits that were streamed lately: a commit is in the log, and streamed, a little before others
// see it, so that a snapshot may not see what was streamed before it was taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "capture/postgres/xid_snapshot.h"

namespace tidemark::capture::postgres {

// Commits that are remembered, in case a snapshot does not see them yet: between the writing of a
// commit and the moment from which others see it, a server may wait for its standbys.
inline constexpr size_t kRecentCommitsMax = 65'536;

// Pure; owned by one thread. For snapshots that are taken one behind the other.
class RecentCommits {
 public:
  // A transaction was streamed, whatever its tables.
  void Add(uint32_t xid);
  // Those that were streamed so far.
  void Mark() { marked_ = recent_.size(); }
  // Those that are marked, but for what an earlier snapshot was known to see.
  std::vector<uint32_t> marked() const {
    return {recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(marked_)};
  }
  // Whether `snapshot` sees all that were marked. What it sees is forgotten: every later one sees
  // it as well.
  bool SeesMarked(const XidSnapshot& snapshot);

 private:
  std::deque<uint32_t> recent_;
  // How many of recent_ are marked.
  size_t marked_ = 0;
};

}  // namespace tidemark::capture::postgres
