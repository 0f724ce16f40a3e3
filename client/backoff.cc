#include "client/backoff.h"

#include <algorithm>

namespace tidemark::client {

absl::Duration Backoff::Failed(absl::Time now, absl::Duration retry_after, double random) {
  if (now - started_ >= options_.stable_after) failures_ = 0;
  absl::Duration wait = options_.first_wait;
  for (int i = 0; i < failures_ && wait < options_.longest_wait; ++i) wait *= 2;
  wait = std::min(wait, options_.longest_wait);
  ++failures_;
  const absl::Duration jittered = wait / 2 + wait / 2 * random;
  return std::max(jittered, retry_after + retry_after / 4 * random);
}

}  // namespace tidemark::client
