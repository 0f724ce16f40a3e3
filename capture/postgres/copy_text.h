// Splits a line of COPY TO STDOUT in text format: columns between tabs, \N for NULL, and backslash
// escapes for what would end a column or a line. Pure; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::capture::postgres {

// `line` is without its line end. The columns view `line`, or `scratch`, which is overwritten.
// False when the line ends inside an escape.
bool SplitCopyLine(std::string_view line, std::string* scratch,
                   std::vector<std::optional<std::string_view>>* columns);

}  // namespace tidemark::capture::postgres
