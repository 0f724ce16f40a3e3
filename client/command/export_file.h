// The file of an export while it grows: lines are appended to FILE.part, its state stands in
// FILE.part.state, and both are gone when the finished file and its manifest have their names.
//
// What the state says is on the disk: the file is synced before the state is replaced. What stands
// behind it in the file is cut off when the export goes on.
//
// Thread rule: one thread at a time. Errors: FILE_IO, FILE_EXISTS.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/command/export_state.h"

namespace tidemark::command {

class ExportFile {
 public:
  // Finds what an earlier run of the same command left, or begins. Refuses a file that is there
  // already, an unfinished one of another command, and one that another process is writing.
  static absl::StatusOr<std::unique_ptr<ExportFile>> Open(const std::filesystem::path& file,
                                                          const ExportRequest& request);
  ~ExportFile();
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;

  // As of the last SaveState, or of the earlier run.
  const ExportState& saved() const { return saved_; }
  // The finished file has its name already; an earlier run ended just behind that.
  bool is_done() const { return done_; }

  absl::Status AddLine(std::string_view line);
  // Bytes with all lines so far.
  uint64_t bytes() const { return written_ + buffer_.size(); }
  // Forgets every line behind the first `bytes`.
  absl::Status CutTo(uint64_t bytes);
  absl::Status SaveState(const ExportState& state);
  // The file and its manifest get their names.
  absl::Status Finish(ExportState state);

 private:
  explicit ExportFile(std::filesystem::path file) : file_(std::move(file)) {}

  absl::Status Begin(const ExportRequest& request);
  absl::Status OpenPart(bool make);
  absl::Status Flush();
  absl::Status GiveNames();
  absl::Status Error(std::string_view what, const std::filesystem::path& path) const;
  std::filesystem::path Beside(std::string_view suffix) const;

  const std::filesystem::path file_;
  int fd_ = -1;
  uint64_t written_ = 0;
  std::string buffer_;
  ExportState saved_;
  bool done_ = false;
};

}  // namespace tidemark::command
