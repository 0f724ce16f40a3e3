#include "capture/postgres/chunk_window.h"

#include "absl/strings/string_view.h"

namespace tidemark::capture::postgres {

void ChunkWindow::Open() {
  open_ = true;
  spoiled_ = false;
  touched_.clear();
  left_out_.clear();
  recent_.Mark();
}

void ChunkWindow::Close() {
  open_ = false;
  touched_.clear();
  left_out_.clear();
}

void ChunkWindow::Touch(std::string_view key) {
  if (!open_ || spoiled_) return;
  touched_.emplace(key);
  spoiled_ = touched_.size() > kTouchedKeysMax;
}

void ChunkWindow::TouchLeavingOut(std::string_view key) {
  Touch(key);
  if (open_ && !spoiled_) left_out_.emplace(key);
}

bool ChunkWindow::Holds(const XidSnapshot& snapshot) {
  const bool sees_marked = recent_.SeesMarked(snapshot);
  return sees_marked && !spoiled_;
}

bool ChunkWindow::Touched(std::string_view key) const {
  return touched_.contains(absl::string_view(key.data(), key.size()));
}

bool ChunkWindow::LeftOut(std::string_view key) const {
  return left_out_.contains(absl::string_view(key.data(), key.size()));
}

}  // namespace tidemark::capture::postgres
