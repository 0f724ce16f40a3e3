// Standard output of a stream of lines: buffered, and known to be written when Flush returned.
// Thread rule: one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tidemark::command {

class Output {
 public:
  // `fd` is lent; `interrupt_fd` becomes readable when the program is to end (-1: never), so that a
  // reader that takes nothing cannot hold it up.
  Output(int fd, int interrupt_fd);

  // Writes when the buffer is full. FILE_IO; CANCELLED when the reader closed the pipe, or when the
  // program is to end and the reader takes nothing.
  absl::Status AddLine(std::string_view line);
  // Everything added was handed to the reader; where the output is a file, it is on the disk if
  // `sync` is set.
  absl::Status Flush(bool sync);
  // It returned CANCELLED: nobody wants more.
  bool is_closed() const { return closed_; }

 private:
  absl::Status WaitUntilWritable();
  absl::Status CheckReader();
  absl::Status WriteError();
  absl::Status Closed(std::string_view why);

  const int fd_;
  const int interrupt_fd_;
  bool is_file_ = false;
  bool closed_ = false;
  bool unsynced_ = false;
  std::string buffer_;
};

}  // namespace tidemark::command
