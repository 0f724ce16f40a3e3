#include "client/command/point.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

namespace tidemark::command {

absl::StatusOr<v1::Start> ParsePoint(const std::string& text) {
  v1::Start start;
  if (text == "snapshot") {
    start.mutable_snapshot();
  } else if (text == "earliest") {
    start.mutable_earliest();
  } else if (text == "latest") {
    start.mutable_latest();
  } else if (text.find_first_of("/ ") != std::string::npos) {
    start.set_native_position(text);
  } else if (text.find(':') != std::string::npos) {
    if (!google::protobuf::util::TimeUtil::FromString(text, start.mutable_time())) {
      return absl::InvalidArgumentError(
          fmt::format("{} is no time; write it as 2026-03-01T12:00:00Z", text));
    }
  } else if (!text.empty()) {
    start.set_cursor(text);
  } else {
    return absl::InvalidArgumentError(fmt::format("expected one of: {}", kPointHelp));
  }
  return start;
}

absl::StatusOr<v1::Until> ParseBound(const std::string& text) {
  v1::Until until;
  if (text == "now") {
    until.mutable_now();
    return until;
  }
  const absl::StatusOr<v1::Start> point = ParsePoint(text);
  if (point.ok() && point->has_time()) {
    *until.mutable_time() = point->time();
  } else if (point.ok() && !point->native_position().empty()) {
    until.set_native_position(point->native_position());
  } else if (point.ok() && !point->cursor().empty()) {
    until.set_cursor(point->cursor());
  } else {
    return absl::InvalidArgumentError(
        fmt::format("{} is no bound; expected one of: {}", text, kBoundHelp));
  }
  return until;
}

}  // namespace tidemark::command
