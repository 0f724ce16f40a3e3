#include "capture/source.h"

#include "proto/reason.h"

namespace tidemark::capture {

bool IsRetried(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == reason::kSourceUnreachable || reason == reason::kSourceSilent ||
         reason == reason::kSourceAuthentication || reason == reason::kSlotActive;
}

absl::StatusOr<DropOutcome> Source::DropOwned(const v1::Checkpoint& /*checkpoint*/,
                                              const std::function<absl::Status()>& decided) {
  const absl::Status noted = decided();
  return noted.ok() ? absl::StatusOr<DropOutcome>(DropOutcome()) : noted;
}

// Taken by value for those that override it, and keep what they get.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
absl::Status Source::OrderTable(TableOrder /*order*/) {
  return ErrorWithReason(absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
                         "the tables of this source cannot be changed while it runs",
                         {{"feature", "tables of a running feed"}});
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
absl::Status Source::Verify(VerifyOrder /*order*/) {
  return ErrorWithReason(absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
                         "rows cannot be compared with this source", {{"feature", "verification"}});
}

}  // namespace tidemark::capture
