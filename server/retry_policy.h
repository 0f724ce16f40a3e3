// When a feed whose source or store failed is tried again. Pure: time and chance are arguments.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tidemark {

enum class Retry {
  // The source or the store may come back by itself: wait, open again, for ever.
  kWait,
  // A person is needed: stop, and say so.
  kNever,
};

// What an error of the source or of the store asks for.
Retry RetryFor(const absl::Status& error);

// How long to wait after the `failures`th failure in a row (from 1): doubled each time, cut by up
// to half by `chance` (0 to 1), so that many feeds do not come back in step. A store
// without room is tried at a steady pace, because nothing but the freeing of space helps.
absl::Duration RetryWait(const absl::Status& error, uint32_t failures, double chance);

}  // namespace tidemark
