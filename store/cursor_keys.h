// The file that holds the keys of cursors. One key a line, `id hex`: id 0 to 255, at least 16
// bytes; the last line signs, all verify, so that a key is replaced by adding one. Empty lines and
// lines that begin with # are passed over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidemark::store {

inline constexpr size_t kCursorKeyBytesMin = 16;

struct CursorKeys {
  // Secret bytes by id.
  std::map<uint8_t, std::string> keys;
  uint8_t signing_key = 0;
};

// Pure. CONFIG_INVALID names the line, never its content; `origin` is the file's name for messages.
absl::StatusOr<CursorKeys> ParseCursorKeys(std::string_view text, const std::string& origin);

// Reads the file, or makes it with one random key: mode 0600, complete or not there at all, and
// durable when this returns. Of two servers that make it at once, both use the one that won.
// CONFIG_INVALID, or STORE_IO where the file cannot be read or made.
absl::StatusOr<CursorKeys> ReadOrMakeCursorKeys(const std::string& path);

}  // namespace tidemark::store
