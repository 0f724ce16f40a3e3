#include "store/cursor_reach.h"

#include <string>

#include "proto/reason.h"

namespace tidemark::store {

absl::Status CheckReach(const Position& cursor, const Position& floor, const Position& head,
                        const Position& end_of_generation) {
  ErrorDetails details = {{"cursor_position", cursor.Text()},
                          {"floor_position", floor.Text()},
                          {"head_position", head.Text()},
                          {"cursor_generation", std::to_string(cursor.generation())},
                          {"generation", std::to_string(head.generation())}};
  if (cursor.generation() < head.generation() && cursor > end_of_generation) {
    details["end_of_generation_position"] = end_of_generation.Text();
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kCursorDiverged,
        "the cursor lies behind the end of a generation of the feed that is closed: what was read "
        "there is no longer part of the feed; start again from a snapshot",
        details);
  }
  if (cursor < floor) {
    details["missing_from_position"] = cursor.Text();
    details["missing_to_position"] = floor.Text();
    return ErrorWithReason(
        absl::StatusCode::kOutOfRange, reason::kCursorExpired,
        "the log no longer reaches back to the cursor: it begins behind " + floor.Text() +
            "; start again from a snapshot, or from the floor if the missing part may be missing",
        details);
  }
  if (cursor > head) {
    return ErrorWithReason(
        absl::StatusCode::kUnavailable, reason::kCursorAhead,
        "the cursor lies ahead of the feed's head " + head.Text() +
            ": this server may still be catching up; try again in a moment, and if it stays so, "
            "look whether the server's store was replaced by an older copy",
        details);
  }
  return absl::OkStatus();
}

}  // namespace tidemark::store
