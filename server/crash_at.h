// For tests of the process only: ends it with SIGKILL at a chosen step of the ingest loop.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/ingest_loop.h"

namespace tidemark {

// `STEP:N`, with STEP one of read, appended, published, synced, confirmed, drop_noted,
// source_dropped: the process dies when its loops together have reached that step for the Nth time.
// InvalidArgument for anything else.
absl::StatusOr<std::function<IngestObserver(const std::string& feed)>> CrashAt(
    std::string_view text);

}  // namespace tidemark
