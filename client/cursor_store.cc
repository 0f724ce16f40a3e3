#include "client/cursor_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::client {
namespace {

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status IoError(std::string_view what, const std::filesystem::path& path) {
  const int error = errno;
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kCursorFileIo,
      fmt::format("cannot {} {}: {}. Check that the folder exists, has space and "
                  "may be written by this user.",
                  what, path.string(), strerror(error)),
      {{"file", path.string()}});
}

absl::Status Damaged(const std::filesystem::path& path, std::string_view found) {
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kCursorFileDamaged,
      fmt::format(
          "cursor file {} {}; expected one line that is a cursor. Restore the file from what "
          "was last known to be handled, or remove it to start anew on purpose.",
          path.string(), found),
      {{"file", path.string()}});
}

bool IsCursorCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool IsCursorText(std::string_view text) {
  return !text.empty() && text.size() <= CursorFile::kCursorBytesMax &&
         std::all_of(text.begin(), text.end(), IsCursorCharacter);
}

absl::Status WriteAll(int fd, std::string_view data, const std::filesystem::path& path) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError("write", path);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteSynced(const std::filesystem::path& path, std::string_view data) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.get() < 0) return IoError("create", path);
  if (absl::Status written = WriteAll(file.get(), data, path); !written.ok()) return written;
  if (fsync(file.get()) != 0) return IoError("sync", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<std::string>> CursorFile::Load() {
  const Descriptor file(path_, O_RDONLY);
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    return IoError("open", path_);
  }
  std::string text(kCursorBytesMax + 2, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError("read", path_);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  if (text.empty()) return Damaged(path_, "is empty");
  // The line's end is written last: without it the cursor may be cut.
  if (text.back() != '\n') return Damaged(path_, "has no complete line");
  text.pop_back();
  if (!IsCursorText(text)) return Damaged(path_, "holds something else");
  return text;
}

absl::Status CursorFile::Store(std::string_view cursor) {
  if (!IsCursorText(cursor)) {
    return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kCursorFileDamaged,
                           fmt::format("refused to write {} bytes that are no cursor to {}",
                                       cursor.size(), path_.string()),
                           {{"file", path_.string()}});
  }
  std::filesystem::path temporary = path_;
  temporary += ".tmp";
  if (absl::Status written = WriteSynced(temporary, fmt::format("{}\n", cursor)); !written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  if (rename(temporary.c_str(), path_.c_str()) != 0) {
    const absl::Status error = IoError("replace", path_);
    unlink(temporary.c_str());
    return error;
  }
  const std::filesystem::path folder =
      path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const Descriptor directory(folder, O_RDONLY | O_DIRECTORY);
  if (directory.get() < 0 || fsync(directory.get()) != 0) return IoError("sync", folder);
  return absl::OkStatus();
}

}  // namespace tidemark::client
