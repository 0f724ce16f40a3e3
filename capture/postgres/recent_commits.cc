#include "capture/postgres/recent_commits.h"

#include <utility>

namespace tidemark::capture::postgres {

void RecentCommits::Add(uint32_t xid) {
  recent_.push_back(xid);
  if (recent_.size() <= kRecentCommitsMax) return;
  recent_.pop_front();
  if (marked_ > 0) --marked_;
}

bool RecentCommits::SeesMarked(const XidSnapshot& snapshot) {
  std::deque<uint32_t> unseen;
  size_t unseen_marked = 0;
  for (size_t i = 0; i < recent_.size(); ++i) {
    if (snapshot.Sees(recent_[i])) continue;
    unseen.push_back(recent_[i]);
    if (i < marked_) ++unseen_marked;
  }
  recent_ = std::move(unseen);
  marked_ = unseen_marked;
  return unseen_marked == 0;
}

}  // namespace tidemark::capture::postgres
