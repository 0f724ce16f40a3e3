// How an error reaches the person at the terminal.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tidemark::command {

// Prints reason, what was found, where, details and the next step to standard error. Returns the
// exit code that belongs to the error.
int Report(const absl::Status& error, std::string_view where);

// The same in one line, for what passes by itself.
void ReportRetry(const absl::Status& error, std::string_view where, std::string_view wait);

}  // namespace tidemark::command
