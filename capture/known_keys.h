// The keys that are known of a table, some at a time, in the forms in which they are compared,
// asked for at the source, and told. Thread rule: that of KnownRows, which is lent.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/known_rows.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {

// Keys that are held at a time, and that are asked for in one chunk or page.
inline constexpr size_t kKnownKeysMax = 5000;
inline constexpr size_t kKeysAskedMax = 500;
static_assert(kKeysAskedMax <= kKnownKeysMax);

struct KnownKey {
  // As KnownRows::EncodeKey.
  std::string key;
  // The text of each key column, as the source takes it.
  std::vector<std::string> texts;
  // As ChangeImages::key.
  std::string image;
};

// A stored value as text that the source takes for one of its type.
using KeyTextOf = std::function<std::string(const v1::Value&)>;

// The next kKnownKeysMax keys from `from` on (empty: from the first), rising; fewer at the end.
// Errors are those of KnownRows, and DataLoss for a stored row that is unreadable.
absl::StatusOr<std::deque<KnownKey>> LoadKnownKeys(KnownRows& known, const v1::TableSchema& table,
                                                   std::string_view from, const KeyTextOf& text_of);

// The smallest key behind this one.
inline std::string KeyBehind(const std::string& key) { return key + '\0'; }

}  // namespace tidemark::capture
