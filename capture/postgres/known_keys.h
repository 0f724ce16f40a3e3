// The keys that are known of a table, some at a time, in the forms in which they are compared,
// asked for at the source, and told.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/known_rows.h"

namespace tidemark::capture::postgres {

// Keys that are held at a time, and that are asked for in one chunk.
inline constexpr size_t kKnownKeysMax = 5000;
inline constexpr size_t kKeysAskedMax = 500;

struct KnownKey {
  // As KnownRows::EncodeKey.
  std::string key;
  // The text of each key column, as PostgreSQL takes it.
  std::vector<std::string> texts;
  // As ChangeImages::key.
  std::string image;
};

// The next kKnownKeysMax keys from `from` on (empty: from the first), rising; fewer at the end.
// Errors are those of KnownRows.
absl::StatusOr<std::deque<KnownKey>> LoadKnownKeys(KnownRows& known, const v1::TableSchema& table,
                                                   std::string_view from);

// The smallest key behind this one.
inline std::string KeyBehind(const std::string& key) { return key + '\0'; }

}  // namespace tidemark::capture::postgres
