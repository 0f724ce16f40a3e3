// The value of a log entry: varint length of the commit record | commit record | run. Only the
// first entry of a transaction holds a record; the others have length 0. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidemark::store {

// What stands before the run. `record` is a serialized CommitRecord, empty in a later entry.
std::string LogEntryHead(std::string_view record);

struct LogEntry {
  std::string_view record;
  std::string_view run;

  // Views into `value`. DataLoss when the length reaches beyond the value.
  static absl::StatusOr<LogEntry> Parse(std::string_view value);
};

}  // namespace tidemark::store
