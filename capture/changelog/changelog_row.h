// One row of a changelog, as it is read. Knows nothing of what the names and texts in it mean.
// Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tidemark::capture::changelog {

// Views into the line that it was read from.
struct ChangelogRow {
  uint64_t xid = 0;
  uint64_t seq = 0;
  std::string_view schema;
  std::string_view table;
  std::string_view op;
  // Text of a JSON object.
  std::optional<std::string_view> key;
  std::optional<std::string_view> row;
  std::optional<std::string_view> old_row;
  std::optional<int64_t> changed_at_us;
};

// What it takes to read lines; to be reused.
struct RowScratch {
  std::string text;
  std::vector<std::optional<std::string_view>> columns;
};

// A line of COPY TO STDOUT in text format with the columns in the order of ChangelogRow. The row
// views the line, or `scratch`. SOURCE_PROTOCOL when it is no such line.
absl::StatusOr<ChangelogRow> ParseRow(std::string_view line, RowScratch* scratch);

}  // namespace tidemark::capture::changelog
