// One key of the cursors' HMAC. Safe from any thread.
#pragma once

// SHA256_CTX is a plain struct that can be copied, which is what makes a MAC cheap here: the hash
// of the padded key is made once, and each MAC starts from a copy. OpenSSL 3 marks it deprecated;
// its replacements allocate for every copy.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>
#include <string_view>

namespace tidemark::store {

class MacKey {
 public:
  static constexpr size_t kMacBytes = 16;
  using Mac = std::array<unsigned char, kMacBytes>;

  explicit MacKey(std::string_view secret);

  // HMAC-SHA256 (RFC 2104), cut to kMacBytes.
  Mac Sign(std::string_view message) const;

 private:
  SHA256_CTX inner_;
  SHA256_CTX outer_;
};

}  // namespace tidemark::store
