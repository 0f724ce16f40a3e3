#include "client/command/export_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "client/command/file_digest.h"
#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::command {
namespace {

constexpr size_t kBufferBytesMax = size_t{1} << 20;
constexpr mode_t kMode = 0666;

bool IsOutOfSpace(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

absl::Status Exists(const std::string& message, const std::filesystem::path& path) {
  return ErrorWithReason(absl::StatusCode::kAlreadyExists, client::reason::kFileExists, message,
                         {{"file", path.string()}});
}

bool IsThere(const std::filesystem::path& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

bool IsSameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat left {};
  struct stat right {};
  return stat(a.c_str(), &left) == 0 && stat(b.c_str(), &right) == 0 &&
         left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

// Never over a file that somebody else put there meanwhile: EEXIST then.
bool Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Where the file system cannot do that.
  return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;
}

bool WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool SyncFolderOf(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced;
}

// A file that is either as before or whole, and on the disk.
bool Replace(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  if (fd < 0) return false;
  bool done = WriteAll(fd, text) && fsync(fd) == 0;
  int error = errno;
  close(fd);
  if (done && (rename(temporary.c_str(), path.c_str()) != 0 || !SyncFolderOf(path))) {
    error = errno;
    done = false;
  }
  if (!done) unlink(temporary.c_str());
  errno = error;
  return done;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExportFile>> ExportFile::Open(const std::filesystem::path& file,
                                                             const ExportRequest& request) {
  std::unique_ptr<ExportFile> opened(new ExportFile(file));
  if (auto status = opened->Begin(request); !status.ok()) return status;
  return opened;
}

ExportFile::~ExportFile() {
  if (fd_ >= 0) close(fd_);
}

std::filesystem::path ExportFile::Beside(std::string_view suffix) const {
  std::filesystem::path path = file_;
  path += suffix;
  return path;
}

absl::Status ExportFile::Begin(const ExportRequest& request) {
  auto state = LoadExportState(Beside(".part.state"));
  if (!state.ok()) return state.status();
  const bool named = *state && (*state)->finished && IsThere(file_) &&
                     (!IsThere(Beside(".part")) || IsSameFile(Beside(".part"), file_));
  if (IsThere(file_) && !named) {
    return Exists(fmt::format("{} is there already; an export never replaces a file: remove it, or "
                              "name another",
                              file_.string()),
                  file_);
  }
  if (!*state) {
    for (const auto& path : {Beside(".part"), Beside(".manifest.json")}) {
      if (!IsThere(path)) continue;
      return Exists(fmt::format("{} is there already, and no state of an export beside it: remove "
                                "it, or name another file",
                                path.string()),
                    path);
    }
    saved_.request = request;
    if (auto saved = SaveState(saved_); !saved.ok()) return saved;
    return OpenPart(true);
  }
  if ((*state)->request != request) {
    return Exists(
        fmt::format("{} is the unfinished export of another command: run that again to go "
                    "on with it, or remove {}*",
                    Beside(".part").string(), Beside(".part").string()),
        Beside(".part"));
  }
  saved_ = **state;
  if (named) {
    done_ = true;
    unlink(Beside(".part").c_str());
    unlink(Beside(".part.state").c_str());
    return absl::OkStatus();
  }
  if (auto opened = OpenPart(saved_.bytes == 0); !opened.ok()) return opened;
  return CutTo(saved_.bytes);
}

absl::Status ExportFile::OpenPart(bool make) {
  const std::filesystem::path part = Beside(".part");
  fd_ = open(part.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | (make ? O_CREAT : 0), kMode);
  if (fd_ < 0) return Error("open", part);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    return Exists(fmt::format("{} is being written by another export", part.string()), part);
  }
  struct stat info {};
  if (fstat(fd_, &info) != 0) return Error("look at", part);
  written_ = static_cast<uint64_t>(info.st_size);
  return absl::OkStatus();
}

absl::Status ExportFile::Error(std::string_view what, const std::filesystem::path& path) const {
  const int error = errno;
  std::string next = "check that the folder is there and may be written by this user";
  if (IsOutOfSpace(error)) {
    next = fmt::format("{} bytes are kept; make room, and the same command goes on behind them",
                       saved_.bytes);
  }
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, client::reason::kFileIo,
      fmt::format("cannot {} {}: {}; {}", what, path.string(), strerror(error), next),
      {{"file", path.string()}});
}

absl::Status ExportFile::AddLine(std::string_view line) {
  buffer_.append(line);
  buffer_.push_back('\n');
  return buffer_.size() < kBufferBytesMax ? absl::OkStatus() : Flush();
}

absl::Status ExportFile::Flush() {
  if (!WriteAll(fd_, buffer_)) {
    const absl::Status error = Error("write", Beside(".part"));
    // What came through of the buffer would stand twice in the file if it is written again.
    if (ftruncate(fd_, static_cast<off_t>(written_)) != 0) buffer_.clear();
    return error;
  }
  written_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status ExportFile::CutTo(uint64_t bytes) {
  if (auto flushed = Flush(); !flushed.ok()) return flushed;
  if (written_ < bytes) {
    return ErrorWithReason(
        absl::StatusCode::kDataLoss, client::reason::kFileIo,
        fmt::format("{} has {} bytes, where {} were finished: it was cut or replaced; remove {}*, "
                    "and the export begins anew",
                    Beside(".part").string(), written_, bytes, Beside(".part").string()));
  }
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return Error("cut", Beside(".part"));
  written_ = bytes;
  return absl::OkStatus();
}

absl::Status ExportFile::SaveState(const ExportState& state) {
  if (fd_ >= 0) {
    if (auto flushed = Flush(); !flushed.ok()) return flushed;
    if (fdatasync(fd_) != 0) return Error("sync", Beside(".part"));
  }
  if (!Replace(Beside(".part.state"), ExportStateText(state))) {
    return Error("write", Beside(".part.state"));
  }
  saved_ = state;
  return absl::OkStatus();
}

absl::Status ExportFile::Finish(ExportState state) {
  state.finished = true;
  if (auto saved = SaveState(state); !saved.ok()) return saved;
  const auto sha256 = Sha256OfFile(fd_);
  if (!sha256.ok()) return sha256.status();
  const std::string manifest = ExportManifestText(state, file_.filename().string(), *sha256);
  // The manifest first: where the finished file has its name, its manifest is there.
  const std::filesystem::path manifest_path = Beside(".manifest.json");
  if (!Replace(manifest_path, manifest)) return Error("write", manifest_path);
  return GiveNames();
}

absl::Status ExportFile::GiveNames() {
  const std::filesystem::path part = Beside(".part");
  if (!Rename(part, file_)) {
    if (errno != EEXIST) return Error("rename", part);
    return Exists(fmt::format("{} appeared while the export ran; it is not replaced. Move it away "
                              "and run the same command again",
                              file_.string()),
                  file_);
  }
  if (!SyncFolderOf(file_)) return Error("sync the folder of", file_);
  unlink(Beside(".part.state").c_str());
  done_ = true;
  return absl::OkStatus();
}

}  // namespace tidemark::command
