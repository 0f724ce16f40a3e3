// Cursors: the opaque token that names a boundary of a feed. Pure apart from reading the key file;
// safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"

namespace tidemark::store {

inline constexpr size_t kCursorBytesMax = 2048;

// Signs and reads cursors. Text, base64url without padding: format version (1) | key id (1) | feed
// identity (8) | position (20) | HMAC-SHA256 of all before, cut to 16 bytes; 62 characters.
class CursorCodec {
 public:
  // Reads the keys (one `id hex` a line, the last one signs), or makes the file with one random
  // key, mode 0600.
  static absl::StatusOr<CursorCodec> Open(const std::string& keys_file);

  std::string Encode(std::string_view feed_identity, const Position& position) const;

  // Checks in this order: form, version, identity, then MAC. Reasons: CURSOR_MALFORMED,
  // CURSOR_VERSION_UNSUPPORTED, CURSOR_OTHER_FEED, CURSOR_FORGED; details name what was found.
  absl::StatusOr<Position> Decode(std::string_view cursor, std::string_view feed_identity) const;

 private:
  std::map<uint8_t, std::string> keys_;
  uint8_t signing_key_ = 0;
};

// Whether a boundary still resumes, given the feed's floor, head and generation. Reasons:
// CURSOR_EXPIRED, CURSOR_AHEAD, CURSOR_DIVERGED. `end_of_generation` is the last boundary of the
// cursor's generation when that is closed, else the head.
absl::Status CheckReach(const Position& cursor, const Position& floor, const Position& head,
                        const Position& end_of_generation);

}  // namespace tidemark::store
