// Puts a filter over transactions that are encoded already. Pure apart from the filter.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/run_filter.h"

namespace tidemark {

// Appends what the filter leaves of `transaction`, a `transactions` field of v1::Batch with a whole
// transaction; false, and nothing appended, when nothing is left.
absl::StatusOr<bool> AppendCutTransaction(std::string_view transaction, RunFilter& filter,
                                          std::string* out);

}  // namespace tidemark
