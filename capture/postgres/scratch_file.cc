#include "capture/postgres/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

namespace tidemark::capture::postgres {
namespace {

absl::Status ErrorOf(int error, std::string_view doing, const std::string& folder) {
  return absl::ErrnoToStatus(error, fmt::format("cannot {} a scratch file in {}", doing, folder));
}

// Of a file system that knows no files without a name.
int OpenAndUnlink(const std::string& path) {
  unlink(path.c_str());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) unlink(path.c_str());
  return fd;
}

}  // namespace

absl::StatusOr<ScratchFile> ScratchFile::Open(const std::string& folder, const std::string& name) {
  int fd = open(folder.c_str(), O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) fd = OpenAndUnlink(folder + "/" + name);
  if (fd < 0) return ErrorOf(errno, "make", folder);
  return ScratchFile(fd, folder);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), folder_(std::move(other.folder_)), size_(other.size_) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(folder_, other.folder_);
  std::swap(size_, other.size_);
  return *this;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ScratchFile::Error(std::string_view doing) const {
  return ErrorOf(errno, doing, folder_);
}

absl::Status ScratchFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error("write to");
    size_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status ScratchFile::Read(uint64_t offset, size_t bytes, std::string* out) const {
  size_t at = out->size();
  out->resize(at + bytes);
  while (at < out->size()) {
    const ssize_t read = pread(fd_, out->data() + at, out->size() - at, static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return Error("read");
    if (read == 0) {
      return absl::DataLossError(
          fmt::format("a scratch file in {} ends before what was written to it", folder_));
    }
    at += static_cast<size_t>(read);
    offset += static_cast<uint64_t>(read);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ScratchFile::DiskFreeBytes() const {
  struct statvfs disk = {};
  if (fstatvfs(fd_, &disk) != 0) return Error("ask for the space beside");
  return static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
}

}  // namespace tidemark::capture::postgres
