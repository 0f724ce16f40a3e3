// Waiting for a condition, never for a time to pass.
//
//   EXPECT_TRUE(WaitUntil([&] { return status().state() == LIVE; }, 10s, [&] { return
//   status().DebugString(); }));
//
// The diagnostics are asked for only when the deadline passes, and stand in the failure message.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "tests/testing/sanitized.h"

namespace tidemark::testing {

// A deadline is there to end a hang, not to measure.
inline constexpr int kDeadlineFactor = kSanitized ? 5 : 1;

// Between two looks: what comes soon is seen soon, and what takes long is not kept from it by being
// asked all the time.
inline constexpr std::chrono::milliseconds kPollIntervalMin{1};
inline constexpr std::chrono::milliseconds kPollIntervalMax{10};

// Calls `condition` on this thread until it is true or `deadline` has passed since the call.
inline ::testing::AssertionResult WaitUntil(
    const std::function<bool()>& condition, std::chrono::milliseconds deadline,
    const std::function<std::string()>& diagnostics = [] { return std::string(); }) {
  const auto end = std::chrono::steady_clock::now() + deadline * kDeadlineFactor;
  std::chrono::milliseconds interval = kPollIntervalMin;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return ::testing::AssertionFailure()
             << fmt::format("still not true after {} ms: {}", deadline.count() * kDeadlineFactor,
                            diagnostics());
    }
    poll(nullptr, 0, static_cast<int>(interval.count()));
    interval = std::min(2 * interval, kPollIntervalMax);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tidemark::testing
