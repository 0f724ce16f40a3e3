// A point of a feed as it is written on the command line. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::command {

inline constexpr char kPointHelp[] =
    "snapshot (current rows, then the log), earliest, latest, or a cursor";

inline constexpr char kBoundHelp[] =
    "now (what is durable at the source when it is asked), a cursor, a time as "
    "2026-03-01T12:00:00Z, or a position in the source's own form (0/16B3748, \"poll 17\")";

// By its looks, as below.
absl::StatusOr<v1::Until> ParseBound(const std::string& text);

// By its looks: a word of the list above; with a slash or a blank a native position; with a colon a
// time; else a cursor. Times and native positions are of the contract, but servers answer
// FEATURE_UNSUPPORTED to them as a start, so that no help offers them there.
absl::StatusOr<v1::Start> ParsePoint(const std::string& text);

}  // namespace tidemark::command
