#include "store/cursor_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "proto/reason.h"

namespace tidemark::store {
namespace {

constexpr size_t kNewKeyBytes = 32;
constexpr size_t kFileBytesMax = 1 << 20;

absl::Status Invalid(const std::string& origin, int line, std::string_view defect) {
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                         "cursor keys file " + origin + ", line " + std::to_string(line) + ": " +
                             std::string(defect) +
                             "; a line is `id hex`, with an id from 0 to 255 and at least " +
                             std::to_string(2 * kCursorKeyBytesMin) + " hexadecimal digits",
                         {{"file", origin}, {"line", std::to_string(line)}});
}

absl::Status IoError(const std::string& what, const std::string& path, int error) {
  return ErrorWithReason(absl::StatusCode::kInternal, reason::kStoreIo,
                         "cannot " + what + " the cursor keys file " + path + ": " +
                             strerror(error) + "; see to the folder and its permissions",
                         {{"file", path}});
}

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

absl::Status ParseLine(std::string_view line, const std::string& origin, int number,
                       CursorKeys* keys) {
  const size_t gap = line.find_first_of(" \t");
  if (gap == std::string_view::npos) return Invalid(origin, number, "the key is missing");
  unsigned id = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + gap, id);
  if (parsed.ec != std::errc() || parsed.ptr != line.data() + gap || id > 255) {
    return Invalid(origin, number, "the id is not a number from 0 to 255");
  }
  const std::string_view hex = Trim(line.substr(gap));
  if (!IsHex(hex) || hex.size() % 2 != 0) {
    return Invalid(origin, number, "the key is not pairs of hexadecimal digits");
  }
  if (hex.size() < 2 * kCursorKeyBytesMin) return Invalid(origin, number, "the key is too short");
  const auto key = static_cast<uint8_t>(id);
  std::string secret = absl::HexStringToBytes(absl::string_view(hex.data(), hex.size()));
  if (!keys->keys.emplace(key, std::move(secret)).second) {
    return Invalid(origin, number, "the id stands on an earlier line already");
  }
  keys->signing_key = key;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ReadFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return std::nullopt;
  if (file < 0) return IoError("open", path, errno);
  absl::Cleanup close_file = [file] { close(file); };
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(file, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError("read", path, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kFileBytesMax) return Invalid(path, 1, "the file is larger than 1 MiB");
  }
}

absl::Status WriteDurably(int file, std::string_view text, const std::string& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = write(file, text.data() + done, text.size() - done);
    if (put < 0 && errno != EINTR) return IoError("write", path, errno);
    if (put > 0) done += static_cast<size_t>(put);
  }
  return fsync(file) == 0 ? absl::OkStatus() : IoError("sync", path, errno);
}

absl::Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return IoError("sync the folder of", path, errno);
  const int failed = fsync(handle) == 0 ? 0 : errno;
  close(handle);
  return failed == 0 ? absl::OkStatus() : IoError("sync the folder of", path, failed);
}

absl::StatusOr<std::string> NewKeyText() {
  unsigned char secret[kNewKeyBytes];
  if (RAND_bytes(secret, sizeof(secret)) != 1) {
    return absl::InternalError("no randomness for a cursor key");
  }
  return "# Keys of cursors. Keep this file with the store; the last line signs, all verify.\n1 " +
         absl::BytesToHexString(
             absl::string_view(reinterpret_cast<char*>(secret), sizeof(secret))) +
         "\n";
}

// A file under another name, then a link: the file appears whole, and only if none is there yet.
absl::Status MakeFile(const std::string& path) {
  absl::StatusOr<std::string> text = NewKeyText();
  if (!text.ok()) return text.status();
  std::string name = path + ".new-XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);  // mode 0600
  if (file < 0) return IoError("make", path, errno);
  absl::Cleanup clean = [&] {
    close(file);
    unlink(name.c_str());
  };
  if (absl::Status s = WriteDurably(file, *text, path); !s.ok()) return s;
  if (link(name.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    return IoError("make", path, errno);
  }
  return SyncFolderOf(path);
}

}  // namespace

absl::StatusOr<CursorKeys> ParseCursorKeys(std::string_view text, const std::string& origin) {
  CursorKeys keys;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    if (absl::Status s = ParseLine(line, origin, number, &keys); !s.ok()) return s;
  }
  if (keys.keys.empty()) return Invalid(origin, std::max(number, 1), "the file holds no key");
  return keys;
}

absl::StatusOr<CursorKeys> ReadOrMakeCursorKeys(const std::string& path) {
  absl::StatusOr<std::optional<std::string>> text = ReadFile(path);
  if (!text.ok()) return text.status();
  if (!text->has_value()) {
    if (absl::Status s = MakeFile(path); !s.ok()) return s;
    text = ReadFile(path);
    if (!text.ok()) return text.status();
    if (!text->has_value()) return IoError("read", path, ENOENT);
  }
  return ParseCursorKeys(**text, path);
}

}  // namespace tidemark::store
