#include "client/command/output.h"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::command {
namespace {

constexpr size_t kBufferBytesMax = size_t{1} << 20;

}  // namespace

Output::Output(int fd, int interrupt_fd) : fd_(fd), interrupt_fd_(interrupt_fd) {
  struct stat info {};
  is_file_ = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

absl::Status Output::AddLine(std::string_view line) {
  buffer_.append(line);
  buffer_.push_back('\n');
  return buffer_.size() < kBufferBytesMax ? absl::OkStatus() : Flush(false);
}

absl::Status Output::Closed(std::string_view why) {
  closed_ = true;
  return absl::CancelledError(absl::string_view(why.data(), why.size()));
}

absl::Status Output::WriteError() {
  if (errno == EPIPE) return Closed("the reader of standard output is gone");
  return ErrorWithReason(absl::StatusCode::kFailedPrecondition, client::reason::kFileIo,
                         fmt::format("cannot write to standard output: {}", strerror(errno)));
}

absl::Status Output::WaitUntilWritable() {
  pollfd fds[] = {{fd_, POLLOUT, 0}, {interrupt_fd_, POLLIN, 0}};
  while (poll(fds, 2, -1) < 0) {
    if (errno != EINTR) return WriteError();
  }
  // An end in order finishes what the reader takes without waiting.
  if (fds[0].revents != 0) return absl::OkStatus();
  return Closed("interrupted while the reader of standard output takes nothing");
}

absl::Status Output::CheckReader() {
  pollfd reader = {fd_, 0, 0};
  if (is_file_ || poll(&reader, 1, 0) <= 0 || (reader.revents & POLLERR) == 0) {
    return absl::OkStatus();
  }
  return Closed("the reader of standard output is gone");
}

absl::Status Output::Flush(bool sync) {
  // An idle feed has nothing to write, and would never hear that its reader left.
  if (buffer_.empty() && !is_file_) return CheckReader();
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    size_t bytes = rest.size();
    if (!is_file_) {
      if (absl::Status writable = WaitUntilWritable(); !writable.ok()) return writable;
      // So much fits without blocking when poll says so.
      bytes = std::min<size_t>(bytes, PIPE_BUF);
    }
    const ssize_t written = write(fd_, rest.data(), bytes);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return WriteError();
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
  }
  unsynced_ = unsynced_ || !buffer_.empty();
  buffer_.clear();
  if (!sync || !is_file_ || !unsynced_) return absl::OkStatus();
  if (fdatasync(fd_) != 0) return WriteError();
  unsynced_ = false;
  return absl::OkStatus();
}

}  // namespace tidemark::command
