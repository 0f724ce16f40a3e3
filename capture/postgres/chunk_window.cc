#include "capture/postgres/chunk_window.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace tidemark::capture::postgres {

void ChunkWindow::Open() {
  open_ = true;
  spoiled_ = false;
  touched_.clear();
  recent_.Mark();
}

void ChunkWindow::Close() {
  open_ = false;
  touched_.clear();
}

void ChunkWindow::Touch(std::string_view key) {
  if (!open_ || spoiled_) return;
  touched_[absl::string_view(key.data(), key.size())] = {};
  spoiled_ = touched_.size() > kTouchedKeysMax;
}

void ChunkWindow::TouchLeavingOut(std::string_view key, uint64_t schema_id,
                                  std::span<const uint32_t> columns) {
  if (!open_ || spoiled_) return;
  const auto [found, is_new] = touched_.try_emplace(absl::string_view(key.data(), key.size()));
  Touched& touched = found->second;
  if (is_new) {
    touched = {{columns.begin(), columns.end()}, schema_id};
  } else if (touched.schema_id != schema_id) {
    touched.schema_id = 0;
  } else {
    std::erase_if(touched.left_out, [&](uint32_t column) {
      return std::find(columns.begin(), columns.end(), column) == columns.end();
    });
  }
  spoiled_ = touched_.size() > kTouchedKeysMax;
}

bool ChunkWindow::Holds(const XidSnapshot& snapshot) {
  const bool sees_marked = recent_.SeesMarked(snapshot);
  return sees_marked && !spoiled_;
}

const ChunkWindow::Touched* ChunkWindow::Find(std::string_view key) const {
  const auto found = touched_.find(absl::string_view(key.data(), key.size()));
  return found == touched_.end() ? nullptr : &found->second;
}

}  // namespace tidemark::capture::postgres
