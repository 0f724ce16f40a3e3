// One thing that the verification of a store found wrong. A plain value.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "proto/position.h"

namespace tidemark::store {

// The checks by their stable names.
namespace check {
inline constexpr std::string_view kChecksum = "checksum";  // a block that is not what was written
inline constexpr std::string_view kMeta = "meta";          // what stands outside the log
inline constexpr std::string_view kOrder = "order";        // (position, sequence) does not rise
inline constexpr std::string_view kEntry = "entry";        // an entry or a run is malformed
inline constexpr std::string_view kRecord = "record";      // commit record and runs disagree
inline constexpr std::string_view kSchema = "schema";      // a schema is missing or not its hash
inline constexpr std::string_view kParts = "parts";        // a value in parts is not whole
inline constexpr std::string_view kSpool = "spool";        // a reference to the spool is broken
inline constexpr std::string_view kBoundary = "boundary";  // checkpoint, floor, fold, head
inline constexpr std::string_view kRow = "row";            // a current row is malformed
inline constexpr std::string_view kFold = "fold";          // rows are not the fold of the log
}  // namespace check

struct Finding {
  std::string_view check;
  std::string feed;
  // Where in the feed, if anywhere.
  std::optional<Position> position;
  std::optional<uint64_t> sequence;
  std::string text;
};

using ReportFinding = std::function<void(const Finding&)>;

}  // namespace tidemark::store
