// Which transactions retention may trim. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "proto/position.h"
#include "store/feed_store.h"
#include "store/log_sample.h"

namespace tidemark::store {

struct RetentionFacts {
  RetentionBounds bounds;
  absl::Time now;
  // Bytes of all transactions since the feed began.
  uint64_t log_bytes = 0;
  // Nothing behind this boundary is trimmed: what is folded, and what a bootstrap still needs.
  Position keep_from;
};

// Nothing behind it may be trimmed.
Position KeepFrom(const Position& folded, const std::optional<Position>& bootstrap);

// Whether everything up to and including the transaction at `position`, behind which `sample`
// holds, may go: all of it is older than the age, or the log without it still fills the bytes.
bool MayTrim(const Position& position, const LogSample& sample, const RetentionFacts& facts);

}  // namespace tidemark::store
