// Whether a boundary still resumes. Pure; safe from any thread.
#pragma once

#include "absl/status/status.h"
#include "proto/position.h"

namespace tidemark::store {

// Whether a boundary still resumes, given the feed's floor and head. `end_of_generation` is the
// last boundary of the cursor's generation when that is closed, else the head. Reasons, in the
// order in which they are checked:
//   CURSOR_DIVERGED  FAILED_PRECONDITION; behind the end of a closed generation: what the client
//                    saw is no more. Details add end_of_generation_position.
//   CURSOR_EXPIRED   OUT_OF_RANGE; before the floor. Details add missing_from_position and
//                    missing_to_position: the interval that is lost, (from, to].
//   CURSOR_AHEAD     UNAVAILABLE; behind the head of the present generation.
// Details of all: cursor_position, floor_position, head_position, cursor_generation, generation.
absl::Status CheckReach(const Position& cursor, const Position& floor, const Position& head,
                        const Position& end_of_generation);

}  // namespace tidemark::store
