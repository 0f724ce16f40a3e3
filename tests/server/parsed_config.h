// A configuration from text, without an environment, and what is reported of one that is refused.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/reason.h"
#include "server/config.h"

namespace tidemark::testing {

inline absl::StatusOr<v1::Config> ConfigOf(const std::string& text) {
  return ParseConfig(text, "t.yaml", [](const std::string&) { return std::nullopt; });
}

inline std::string ReportOf(const std::string& text) {
  const auto config = ConfigOf(text);
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(ReasonOf(config.status()), reason::kConfigInvalid) << text;
  return std::string(config.status().message());
}

}  // namespace tidemark::testing
