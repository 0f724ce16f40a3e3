// Whether a server's log still holds what a feed was captured from, where a standby was promoted
// since then. Pure.
//
//   timeline 1 ──────┬───────▶ of the old primary: whoever follows timeline 2 never had this
//                    └───────▶ timeline 2, of the standby that was promoted here
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

// A timeline that a server's log came along, and where it was left for the next one.
struct PastTimeline {
  uint32_t timeline = 0;
  Lsn left_at = 0;
};
// All of them but the present one, rising.
using TimelineHistory = std::vector<PastTimeline>;

// The text of a history file, as TIMELINE_HISTORY gives it. SOURCE_PROTOCOL when it is none.
absl::StatusOr<TimelineHistory> ParseTimelineHistory(std::string_view text);

enum class TimelineVerdict {
  // The server is on the timeline that was captured from.
  kSame,
  // It left that timeline at or behind everything that was captured: nothing of it was undone.
  kGoesOn,
  // It left that timeline before what was captured last.
  kDiverged,
  // Its log did not come along that timeline, or it does not say so.
  kUnknown,
};

struct TimelineJudgement {
  TimelineVerdict verdict = TimelineVerdict::kUnknown;
  // Where the timeline that was captured from was left: with kGoesOn and kDiverged.
  Lsn left_at = 0;
};

// Everything at or before `captured` was captured, the last of it from `timeline`. The server is on
// timeline `present`, to which it came by `history`.
TimelineJudgement JudgeTimeline(uint32_t timeline, Lsn captured, uint32_t present,
                                const TimelineHistory& history);

}  // namespace tidemark::capture::postgres
