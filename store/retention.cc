#include "store/retention.h"

#include <algorithm>

namespace tidemark::store {

Position KeepFrom(const Position& folded, const std::optional<Position>& bootstrap) {
  return bootstrap ? std::min(folded, *bootstrap) : folded;
}

bool MayTrim(const Position& position, const LogSample& sample, const RetentionFacts& facts) {
  if (position > facts.keep_from) return false;
  const bool too_old =
      absl::FromUnixMicros(sample.newest_commit_time_us) < facts.now - facts.bounds.age;
  const bool too_large = facts.log_bytes - sample.log_bytes >= facts.bounds.bytes;
  return too_old || too_large;
}

}  // namespace tidemark::store
