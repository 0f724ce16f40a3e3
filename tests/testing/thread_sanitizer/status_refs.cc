// What absl::Status counts of its references in the library, counted here, in code that thread
// sanitizer sees. Debian's build of the library is not instrumented: that the last reference is
// given back only after every other one was would look like a race of whoever gives it back. Linked
// into the test programs of that build alone, before the library, whose symbol it takes the place
// of.
#include "absl/status/status.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* const counted = RepToPointer(rep);
  if (counted->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete counted;
}

ABSL_NAMESPACE_END
}  // namespace absl
