// The position of a poll as people read it: poll 17. Also the source of a log says so of the polls
// that its feed began with. Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>

#include "proto/position.h"

namespace tidemark::capture {

inline constexpr std::string_view kPollWord = "poll ";

inline std::string PollText(const Position& position) {
  return std::string(kPollWord) + std::to_string(position.engine_low());
}

}  // namespace tidemark::capture
