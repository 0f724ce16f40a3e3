#include "server/retry_policy.h"

#include <algorithm>

#include "capture/source.h"
#include "proto/reason.h"
#include "server/limits.h"

namespace tidemark {

Retry RetryFor(const absl::Status& error) {
  if (ReasonOf(error) == reason::kStoreFull) return Retry::kWait;
  return capture::IsRetried(error) ? Retry::kWait : Retry::kNever;
}

absl::Duration RetryWait(const absl::Status& error, uint32_t failures, double chance) {
  if (ReasonOf(error) == reason::kStoreFull) return absl::Milliseconds(limits::store_full_wait_ms);
  int64_t wait_ms = limits::retry_wait_first_ms;
  for (uint32_t i = 1; i < failures && wait_ms < limits::retry_wait_longest_ms; ++i) wait_ms *= 2;
  wait_ms = std::min(wait_ms, limits::retry_wait_longest_ms);
  return absl::Milliseconds(wait_ms) * (1 - 0.5 * std::clamp(chance, 0.0, 1.0));
}

}  // namespace tidemark
