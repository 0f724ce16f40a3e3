// How far an export has come, and what it was asked for: kept beside the unfinished file, so that
// the same command goes on where it stopped. Pure but for its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidemark::command {

// What was asked for: another command on the same file is another export.
struct ExportRequest {
  std::string feed;
  std::string from;
  std::string until;
  std::string format;
  std::vector<std::string> tables;
  std::vector<std::string> ops;

  friend bool operator==(const ExportRequest&, const ExportRequest&) = default;
};

struct ExportState {
  ExportRequest request;
  // The bound that `until` turned out to be, in the source's own form; empty while not known. It
  // holds for a later run once there is a cursor.
  std::string bound;
  // The first `bytes` of the file hold everything up to this cursor. Empty: nothing was finished.
  std::string cursor;
  uint64_t bytes = 0;
  uint64_t rows = 0;
  uint64_t transactions = 0;
  uint64_t changes = 0;
  std::map<std::string, uint64_t> lines_by_table;
  std::string first_position;
  std::string last_position;
  // Reasons and details of Gap records.
  std::vector<std::string> gaps;
  // CSV: the first line of the file.
  std::string header;
  // Everything up to the bound is in the file: only its names are to be changed.
  bool finished = false;

  friend bool operator==(const ExportState&, const ExportState&) = default;
};

std::string ExportStateText(const ExportState& state);
// FILE_IO for anything that ExportStateText did not make.
absl::StatusOr<ExportState> ParseExportState(const std::string& text);

// nullopt: there is no such file. FILE_IO.
absl::StatusOr<std::optional<ExportState>> LoadExportState(const std::filesystem::path& path);

// What stands beside the finished file. `sha256` in hexadecimal.
std::string ExportManifestText(const ExportState& state, const std::string& file,
                               const std::string& sha256);

}  // namespace tidemark::command
