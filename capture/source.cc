#include "capture/source.h"

#include "proto/reason.h"

namespace tidemark::capture {

bool IsRetried(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == reason::kSourceUnreachable || reason == reason::kSourceSilent ||
         reason == reason::kSourceAuthentication || reason == reason::kSlotActive;
}

}  // namespace tidemark::capture
