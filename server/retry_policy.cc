#include "server/retry_policy.h"

#include <algorithm>

#include "capture/source.h"
#include "proto/reason.h"
#include "server/limits.h"

namespace tidemark {

namespace {

// The store has no room: it frees some, or a person does, and nothing else helps.
bool LacksRoom(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  return reason == reason::kStoreFull || reason == reason::kFoldBehind;
}

}  // namespace

Retry RetryFor(const absl::Status& error) {
  if (LacksRoom(error)) return Retry::kWait;
  return capture::IsRetried(error) ? Retry::kWait : Retry::kNever;
}

absl::Duration RetryWait(const absl::Status& error, uint32_t failures, double chance) {
  if (LacksRoom(error)) return absl::Milliseconds(limits::store_room_wait_ms);
  int64_t wait_ms = limits::retry_wait_first_ms;
  for (uint32_t i = 1; i < failures && wait_ms < limits::retry_wait_longest_ms; ++i) wait_ms *= 2;
  wait_ms = std::min(wait_ms, limits::retry_wait_longest_ms);
  return absl::Milliseconds(wait_ms) * (1 - 0.5 * std::clamp(chance, 0.0, 1.0));
}

}  // namespace tidemark
