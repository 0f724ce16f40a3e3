#include "server/retry_policy.h"

#include <gtest/gtest.h>

#include "proto/reason.h"
#include "server/limits.h"

namespace tidemark {
namespace {

absl::Status Error(std::string_view reason) {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason, "test");
}

TEST(RetryPolicy, WhatMayPassIsRetriedAndTheRestNeedsAPerson) {
  for (const auto reason :
       {reason::kSourceUnreachable, reason::kSourceSilent, reason::kSourceAuthentication,
        reason::kSlotActive, reason::kStoreFull, reason::kFoldBehind}) {
    EXPECT_EQ(RetryFor(Error(reason)), Retry::kWait) << reason;
  }
  for (const auto reason : {reason::kSlotLost, reason::kSlotAdvanced, reason::kSourceReplaced,
                            reason::kSourceProtocol, reason::kStoreDamaged, reason::kStoreIo}) {
    EXPECT_EQ(RetryFor(Error(reason)), Retry::kNever) << reason;
  }
  EXPECT_EQ(RetryFor(absl::InternalError("no reason")), Retry::kNever);
}

TEST(RetryPolicy, WaitsDoubleUpToTheLongest) {
  const auto lost = Error(reason::kSourceUnreachable);
  EXPECT_EQ(RetryWait(lost, 1, 0), absl::Milliseconds(limits::retry_wait_first_ms));
  EXPECT_EQ(RetryWait(lost, 2, 0), absl::Milliseconds(2 * limits::retry_wait_first_ms));
  EXPECT_EQ(RetryWait(lost, 3, 0), absl::Milliseconds(4 * limits::retry_wait_first_ms));
  for (const uint32_t failures : {20u, 1000u, UINT32_MAX}) {
    EXPECT_EQ(RetryWait(lost, failures, 0), absl::Milliseconds(limits::retry_wait_longest_ms));
  }
}

TEST(RetryPolicy, ChanceShortensByUpToHalf) {
  const auto lost = Error(reason::kSourceUnreachable);
  EXPECT_EQ(RetryWait(lost, 1, 1), absl::Milliseconds(limits::retry_wait_first_ms / 2));
  EXPECT_LT(RetryWait(lost, 1, 0.7), RetryWait(lost, 1, 0.2));
  EXPECT_GE(RetryWait(lost, 1, 5), absl::Milliseconds(limits::retry_wait_first_ms / 2));
}

TEST(RetryPolicy, AFullStoreIsTriedAtASteadyPace) {
  const auto full = Error(reason::kStoreFull);
  EXPECT_EQ(RetryWait(full, 1, 0.5), RetryWait(full, 100, 0));
}

}  // namespace
}  // namespace tidemark
