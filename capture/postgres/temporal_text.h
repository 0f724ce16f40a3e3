// Turns PostgreSQL's ISO output of dates and times into ISO 8601 with a T and a zone. Pure; safe
// from any thread. All functions return false for text of another form, which is what a session
// prints whose DateStyle, IntervalStyle or TimeZone is not pinned.
#pragma once

#include <cstddef>
#include <string_view>

namespace tidemark::capture::postgres {

// Room for the longest result: 294276-12-31T23:59:59.999999+15:59:59 BC.
inline constexpr size_t kTemporalBytesMax = 64;

// Written by the functions below; `text` views `buffer`.
struct TemporalText {
  char buffer[kTemporalBytesMax];
  size_t size = 0;
  std::string_view text() const { return {buffer, size}; }
};

// 2021-06-01, 0044-03-15 BC, infinity, -infinity: as they are.
bool IsDate(std::string_view text);
// 04:05:06.789, as it is.
bool IsTime(std::string_view text);
// P1Y2M-3DT4H5M6.789S, infinity, -infinity: as they are.
bool IsInterval(std::string_view text);
// 04:05:06+02 → 04:05:06+02:00; a zero offset becomes Z.
bool ConvertTimeWithZone(std::string_view text, TemporalText* out);
// 2021-06-01 06:30:00.5 → 2021-06-01T06:30:00.5
bool ConvertTimestamp(std::string_view text, TemporalText* out);
// 2021-06-01 06:30:00.5+00 → 2021-06-01T06:30:00.5Z; any offset but zero is refused.
bool ConvertTimestampWithZone(std::string_view text, TemporalText* out);

}  // namespace tidemark::capture::postgres
