// Makes the source that a feed's configuration names, and checks one without starting it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/source.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {

// Something that a source lacks, and what mends it.
struct Finding {
  enum class Severity { kOk, kWarning, kError };
  Severity severity = Severity::kOk;
  // A reason of proto/reason.h; empty for kOk.
  std::string reason;
  // What was found, and where.
  std::string message;
  // SQL (or a setting with a restart) that mends it; empty where there is nothing to do.
  std::string remedy;
};

// The tables that `postgres` of a feed names; where it names none, those that are polled, else all
// of schema public. CONFIG_INVALID when one cannot be read.
absl::StatusOr<std::vector<TablePattern>> ConfiguredTables(const v1::FeedConfig& config);

// The source of the engine that is set; of poll and postgres, one that is polled until it is moved
// to the log. InvalidArgument (CONFIG_INVALID) when none is set. Does not connect. What it has to
// hold outside of memory stands in files without a name in `scratch_folder`; empty: it cannot.
absl::StatusOr<std::unique_ptr<Source>> MakeSource(const v1::FeedConfig& config,
                                                   const std::string& scratch_folder = "");

// Connects, looks for every missing privilege and setting, changes nothing. Errors of the check
// itself (cannot connect) come as a finding too.
std::vector<Finding> CheckSource(const v1::FeedConfig& config);

}  // namespace tidemark::capture
