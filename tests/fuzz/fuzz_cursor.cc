// Whatever bytes a client sends as a cursor: refused with a reason, or the one text of its
// boundary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "proto/reason.h"
#include "store/cursor.h"
#include "store/cursor_keys.h"

namespace {

using tidemark::Position;
using tidemark::store::CursorCodec;

constexpr std::string_view kFeed = "feed-one";

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckCursor(std::string_view bytes) {
  static const CursorCodec codec({{1, std::string(32, 'k')}}, 1);
  const absl::StatusOr<Position> position = codec.Decode(bytes, kFeed);
  if (position.ok()) {
    Require(codec.Encode(kFeed, *position) == bytes);
  } else {
    Require(!tidemark::ReasonOf(position.status()).empty());
  }
}

// The same bytes as a file of keys: keys that are read sign what they then read.
void CheckKeys(std::string_view bytes) {
  const auto keys = tidemark::store::ParseCursorKeys(bytes, "keys");
  if (!keys.ok()) {
    Require(tidemark::ReasonOf(keys.status()) == tidemark::reason::kConfigInvalid);
    return;
  }
  const CursorCodec codec(keys->keys, keys->signing_key);
  const Position position = Position::Of(1, 42);
  const absl::StatusOr<Position> decoded = codec.Decode(codec.Encode(kFeed, position), kFeed);
  Require(decoded.ok() && *decoded == position);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckCursor(bytes);
  CheckKeys(bytes);
  return 0;
}
