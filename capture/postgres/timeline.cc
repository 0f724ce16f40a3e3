#include "capture/postgres/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr std::string_view kBlanks = " \t\r";

// Takes a word off the front of `line`.
std::string_view TakeWord(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(kBlanks), line->size()));
  const std::string_view word = line->substr(0, line->find_first_of(kBlanks));
  line->remove_prefix(word.size());
  return word;
}

absl::Status NoHistory(std::string_view line) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
      fmt::format("the server's timeline history has a line '{}'", line.substr(0, 200)));
}

}  // namespace

// Lines of: timeline, where it was left, why. Comments begin with #.
absl::StatusOr<TimelineHistory> ParseTimelineHistory(std::string_view text) {
  TimelineHistory history;
  while (!text.empty()) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
    std::string_view line = whole;
    const std::string_view number = TakeWord(&line);
    if (number.empty() || number.front() == '#') continue;
    PastTimeline past;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), past.timeline);
    const absl::StatusOr<Lsn> left_at = ParseLsn(TakeWord(&line));
    const bool rises = history.empty() || past.timeline > history.back().timeline;
    if (error != std::errc() || end != number.data() + number.size() || !left_at.ok() || !rises) {
      return NoHistory(whole);
    }
    past.left_at = *left_at;
    history.push_back(past);
  }
  return history;
}

TimelineJudgement JudgeTimeline(uint32_t timeline, Lsn captured, uint32_t present,
                                const TimelineHistory& history) {
  if (timeline == present) return {TimelineVerdict::kSame};
  for (const PastTimeline& past : history) {
    if (past.timeline != timeline) continue;
    return {captured <= past.left_at ? TimelineVerdict::kGoesOn : TimelineVerdict::kDiverged,
            past.left_at};
  }
  return {TimelineVerdict::kUnknown};
}

}  // namespace tidemark::capture::postgres
