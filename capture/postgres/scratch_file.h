// A file without a name, for what is too large for memory. It is gone when it is closed, however
// the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidemark::capture::postgres {

// Thread rule: one thread at a time. Errors are those of the system, without a reason, and say what
// could not be done and where.
class ScratchFile {
 public:
  // Readable by this user alone. `name`: what it is called in `folder` for a moment, where the file
  // system knows no files without a name. What a kill left behind under it is removed, so that no
  // two files are opened under one name at a time.
  static absl::StatusOr<ScratchFile> Open(const std::string& folder, const std::string& name);
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  absl::Status Append(std::string_view bytes);
  // `bytes` bytes from `offset` on, behind what is in `out`. REQUIRES: they were appended.
  absl::Status Read(uint64_t offset, size_t bytes, std::string* out) const;
  uint64_t size() const { return size_; }
  // What others may still write to its disk.
  absl::StatusOr<uint64_t> DiskFreeBytes() const;

 private:
  ScratchFile(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}

  absl::Status Error(std::string_view doing) const;

  int fd_;  // owned; -1: moved from
  std::string folder_;
  uint64_t size_ = 0;
};

}  // namespace tidemark::capture::postgres
