#include "store/mac_key.h"

#include <cstring>

namespace tidemark::store {

MacKey::MacKey(std::string_view secret) {
  std::array<unsigned char, SHA256_CBLOCK> block{};
  if (secret.size() > block.size()) {
    SHA256(reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), block.data());
  } else {
    std::memcpy(block.data(), secret.data(), secret.size());
  }
  for (auto& byte : block) byte ^= 0x36;
  SHA256_Init(&inner_);
  SHA256_Update(&inner_, block.data(), block.size());
  for (auto& byte : block) byte ^= 0x36 ^ 0x5C;
  SHA256_Init(&outer_);
  SHA256_Update(&outer_, block.data(), block.size());
}

MacKey::Mac MacKey::Sign(std::string_view message) const {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256_CTX context = inner_;
  SHA256_Update(&context, message.data(), message.size());
  SHA256_Final(digest.data(), &context);
  context = outer_;
  SHA256_Update(&context, digest.data(), digest.size());
  SHA256_Final(digest.data(), &context);
  Mac mac;
  std::memcpy(mac.data(), digest.data(), mac.size());
  return mac;
}

}  // namespace tidemark::store
