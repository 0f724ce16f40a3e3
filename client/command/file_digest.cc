#include "client/command/file_digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"

namespace tidemark::command {

absl::StatusOr<std::string> Sha256OfFile(int fd) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       EVP_MD_CTX_free);
  if (digest == nullptr || EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("SHA-256 is not there");
  }
  std::vector<char> block(kBlockBytes);
  for (off_t at = 0;;) {
    const ssize_t got = pread(fd, block.data(), block.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "reading the file again");
    if (got == 0) break;
    EVP_DigestUpdate(digest.get(), block.data(), static_cast<size_t>(got));
    at += got;
  }
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(digest.get(), bytes, &size);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), size));
}

}  // namespace tidemark::command
