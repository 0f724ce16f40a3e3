#include "store/log_entry.h"

#include <cstdint>

namespace tidemark::store {
namespace {

// A commit record is far below 2^35 bytes; more than this many length bytes are damage.
constexpr size_t kLengthBytesMax = 5;

}  // namespace

std::string LogEntryHead(std::string_view record) {
  std::string head;
  head.reserve(kLengthBytesMax + record.size());
  size_t length = record.size();
  for (; length >= 0x80; length >>= 7) head.push_back(static_cast<char>(length | 0x80));
  head.push_back(static_cast<char>(length));
  head.append(record);
  return head;
}

absl::StatusOr<LogEntry> LogEntry::Parse(std::string_view value) {
  uint64_t length = 0;
  size_t at = 0;
  for (;; ++at) {
    if (at == kLengthBytesMax || at == value.size()) {
      return absl::DataLossError("the length of a commit record is unreadable");
    }
    const auto byte = static_cast<unsigned char>(value[at]);
    length |= uint64_t{byte & 0x7Fu} << (7 * at);
    if (byte < 0x80) break;
  }
  ++at;
  if (length > value.size() - at) {
    return absl::DataLossError("a commit record reaches beyond its entry");
  }
  return LogEntry{value.substr(at, length), value.substr(at + length)};
}

}  // namespace tidemark::store
