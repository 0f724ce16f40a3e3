// Puts together a source that is polled until it is moved to the log, from a configuration with
// both.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/source.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {

// `log` is the source that the postgres block describes, `tables` what it captures. CONFIG_INVALID
// where a polled table cannot be read. Does not connect.
absl::StatusOr<std::unique_ptr<Source>> MakeMigrating(const v1::FeedConfig& config,
                                                      std::unique_ptr<Source> log,
                                                      std::vector<TablePattern> tables);

}  // namespace tidemark::capture
