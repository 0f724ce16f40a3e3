// Cursors: the opaque token that names a boundary of a feed. Pure apart from reading the key file;
// safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/cursor_reach.h"  // CheckReach

namespace tidemark::store {

class MacKey;

inline constexpr size_t kCursorBytesMax = 2048;
inline constexpr size_t kFeedIdentityBytes = 8;

// Signs and reads cursors. Text, base64url without padding: format version (1) | key id (1) | feed
// identity (8) | position (20) | HMAC-SHA256 of all before, cut to 16 bytes; 62 characters.
class CursorCodec {
 public:
  // Reads the keys (store/cursor_keys.h), or makes the file with one random key.
  static absl::StatusOr<CursorCodec> Open(const std::string& keys_file);

  // `keys`: secret bytes by id; `signing_key` is one of them.
  CursorCodec(const std::map<uint8_t, std::string>& keys, uint8_t signing_key);

  // REQUIRES: feed_identity.size() == kFeedIdentityBytes.
  std::string Encode(std::string_view feed_identity, const Position& position) const;

  // Checks in this order: form, version, identity, then MAC. Reasons, all INVALID_ARGUMENT, with
  // what they say in their details:
  //   CURSOR_MALFORMED            found_bytes, defect
  //   CURSOR_VERSION_UNSUPPORTED  found_version, supported_version
  //   CURSOR_OTHER_FEED           found_feed_identity, feed_identity (hexadecimal)
  //   CURSOR_FORGED               key_id, known_key_ids
  absl::StatusOr<Position> Decode(std::string_view cursor, std::string_view feed_identity) const;

 private:
  // Shared between copies; never changes.
  std::map<uint8_t, std::shared_ptr<const MacKey>> keys_;
  uint8_t signing_key_id_;
  const MacKey* signing_key_;
};

}  // namespace tidemark::store
