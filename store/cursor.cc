#include "store/cursor.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "proto/reason.h"
#include "store/cursor_keys.h"
#include "store/mac_key.h"

namespace tidemark::store {
namespace {

constexpr uint8_t kVersion = 1;

// Where each part of the binary form begins.
constexpr size_t kIdentityAt = 2;
constexpr size_t kPositionAt = kIdentityAt + kFeedIdentityBytes;
constexpr size_t kMacAt = kPositionAt + Position::kBytes;
constexpr size_t kBinaryBytes = kMacAt + MacKey::kMacBytes;
static_assert(kBinaryBytes == 46);

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

absl::Status Malformed(std::string_view cursor, std::string_view defect) {
  return ErrorWithReason(
      absl::StatusCode::kInvalidArgument, reason::kCursorMalformed,
      "this is no cursor: " + std::string(defect) +
          "; pass a cursor exactly as the server gave it, or start without one",
      {{"found_bytes", std::to_string(cursor.size())}, {"defect", std::string(defect)}});
}

// One cursor has one text: whatever else decodes to the same bytes is refused.
absl::StatusOr<std::string> BinaryForm(std::string_view cursor) {
  if (cursor.empty()) return Malformed(cursor, "it is empty");
  if (cursor.size() > kCursorBytesMax) return Malformed(cursor, "it is longer than any cursor");
  std::string binary;
  if (!absl::WebSafeBase64Unescape(ToAbsl(cursor), &binary) || binary.empty() ||
      absl::WebSafeBase64Escape(binary) != ToAbsl(cursor)) {
    return Malformed(cursor, "it is not base64url text without padding");
  }
  return binary;
}

absl::Status CheckVersion(std::string_view cursor, std::string_view binary) {
  const int version = static_cast<unsigned char>(binary[0]);
  if (version != kVersion) {
    return ErrorWithReason(
        absl::StatusCode::kInvalidArgument, reason::kCursorVersion,
        "the cursor has format version " + std::to_string(version) +
            ", this server reads version " + std::to_string(kVersion) +
            "; use the server that made it or a newer one, or start from a snapshot",
        {{"found_version", std::to_string(version)},
         {"supported_version", std::to_string(kVersion)}});
  }
  if (binary.size() != kBinaryBytes) return Malformed(cursor, "its length is wrong");
  return absl::OkStatus();
}

absl::Status CheckIdentity(std::string_view binary, std::string_view feed_identity) {
  const std::string_view found = binary.substr(kIdentityAt, kFeedIdentityBytes);
  if (found == feed_identity) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kInvalidArgument, reason::kCursorOtherFeed,
      "the cursor is of another feed, or of an older life of this one (feed " + Hex(found) +
          ", this is " + Hex(feed_identity) + "); start from a snapshot",
      {{"found_feed_identity", Hex(found)}, {"feed_identity", Hex(feed_identity)}});
}

absl::Status Forged(uint8_t key_id, std::string_view known, std::string_view what) {
  return ErrorWithReason(
      absl::StatusCode::kInvalidArgument, reason::kCursorForged,
      "the cursor was not made by this server: " + std::string(what) +
          "; servers that answer for one another need the same cursor_keys_file; else start from a "
          "snapshot",
      {{"key_id", std::to_string(key_id)}, {"known_key_ids", std::string(known)}});
}

}  // namespace

absl::StatusOr<CursorCodec> CursorCodec::Open(const std::string& keys_file) {
  absl::StatusOr<CursorKeys> keys = ReadOrMakeCursorKeys(keys_file);
  if (!keys.ok()) return keys.status();
  return CursorCodec(keys->keys, keys->signing_key);
}

CursorCodec::CursorCodec(const std::map<uint8_t, std::string>& keys, uint8_t signing_key)
    : signing_key_id_(signing_key) {
  for (const auto& [id, secret] : keys) keys_[id] = std::make_shared<MacKey>(secret);
  signing_key_ = keys_.at(signing_key).get();
}

std::string CursorCodec::Encode(std::string_view feed_identity, const Position& position) const {
  char binary[kBinaryBytes] = {};
  binary[0] = kVersion;
  binary[1] = static_cast<char>(signing_key_id_);
  std::memcpy(binary + kIdentityAt, feed_identity.data(),
              std::min(feed_identity.size(), kFeedIdentityBytes));
  std::memcpy(binary + kPositionAt, position.bytes().data(), Position::kBytes);
  const MacKey::Mac mac = signing_key_->Sign({binary, kMacAt});
  std::memcpy(binary + kMacAt, mac.data(), mac.size());
  std::string text;
  absl::WebSafeBase64Escape(absl::string_view(binary, kBinaryBytes), &text);
  return text;
}

absl::StatusOr<Position> CursorCodec::Decode(std::string_view cursor,
                                             std::string_view feed_identity) const {
  absl::StatusOr<std::string> decoded = BinaryForm(cursor);
  if (!decoded.ok()) return decoded.status();
  const std::string_view binary = *decoded;
  if (absl::Status s = CheckVersion(cursor, binary); !s.ok()) return s;
  if (absl::Status s = CheckIdentity(binary, feed_identity); !s.ok()) return s;

  const auto key_id = static_cast<uint8_t>(binary[1]);
  std::string known;
  for (const auto& [id, key] : keys_) known += (known.empty() ? "" : ",") + std::to_string(id);
  const auto key = keys_.find(key_id);
  if (key == keys_.end()) return Forged(key_id, known, "its key is not in the key file");
  const MacKey::Mac mac = key->second->Sign(binary.substr(0, kMacAt));
  if (CRYPTO_memcmp(mac.data(), binary.data() + kMacAt, mac.size()) != 0) {
    return Forged(key_id, known, "its signature does not match its content");
  }
  return Position::FromBytes(binary.substr(kPositionAt, Position::kBytes));
}

}  // namespace tidemark::store
