#include "capture/postgres/chunk_window.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace tidemark::capture::postgres {

void ChunkWindow::Committed(uint32_t xid) {
  recent_.push_back(xid);
  if (recent_.size() <= kRecentCommitsMax) return;
  recent_.pop_front();
  if (recent_before_ > 0) --recent_before_;
}

void ChunkWindow::Open() {
  open_ = true;
  spoiled_ = false;
  touched_.clear();
  recent_before_ = recent_.size();
}

void ChunkWindow::Close() {
  open_ = false;
  touched_.clear();
}

void ChunkWindow::Touch(std::string_view key) {
  if (!open_ || spoiled_) return;
  touched_.emplace(key);
  spoiled_ = touched_.size() > kTouchedKeysMax;
}

bool ChunkWindow::Holds(const XidSnapshot& snapshot) {
  // What a snapshot sees, every later one sees.
  std::deque<uint32_t> unseen;
  size_t unseen_before = 0;
  for (size_t i = 0; i < recent_.size(); ++i) {
    if (snapshot.Sees(recent_[i])) continue;
    unseen.push_back(recent_[i]);
    if (i < recent_before_) ++unseen_before;
  }
  recent_ = std::move(unseen);
  recent_before_ = unseen_before;
  return !spoiled_ && unseen_before == 0;
}

bool ChunkWindow::Touched(std::string_view key) const {
  return touched_.contains(absl::string_view(key.data(), key.size()));
}

}  // namespace tidemark::capture::postgres
