// Where capture of a feed is to end, as people write it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

struct StopOrder {
  enum class Kind {
    kNever,
    // Where the source's log ends when it is asked, after the initial snapshot.
    kNow,
    // Before the first transaction committed later, or where the source's log ends then.
    kTime,
    // A position in the source's own form.
    kNative,
  };
  Kind kind = Kind::kNever;
  absl::Time time = absl::InfinitePast();
  std::string native;
};

// By its looks: never (or nothing), now, a time as 2026-03-01T12:00:00Z; else a position, which
// the source checks. REQUEST_INVALID for a time that is none.
absl::StatusOr<StopOrder> ParseStopOrder(std::string_view text);

// The same text for what a call says; a cursor has none.
std::string StopOrderText(const v1::Until& until);

}  // namespace tidemark
