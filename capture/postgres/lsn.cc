#include "capture/postgres/lsn.h"

#include <charconv>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace tidemark::capture::postgres {
namespace {

// Digits of each half.
constexpr size_t kHalfDigitsMax = 8;

bool ParseHalf(std::string_view text, uint32_t* value) {
  if (text.empty() || text.size() > kHalfDigitsMax) return false;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value, 16);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

std::string LsnText(Lsn lsn) { return fmt::format("{:X}/{:X}", lsn >> 32, lsn & UINT32_MAX); }

absl::StatusOr<Lsn> ParseLsn(std::string_view text) {
  const size_t slash = text.find('/');
  uint32_t high = 0;
  uint32_t low = 0;
  if (slash == std::string_view::npos || !ParseHalf(text.substr(0, slash), &high) ||
      !ParseHalf(text.substr(slash + 1), &low)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no LSN: expected two hexadecimal numbers, as in 16/B374D848", text.substr(0, 64)));
  }
  const Lsn lsn = Lsn{high} << 32 | low;
  if (lsn == 0 || lsn == UINT64_MAX) {
    return absl::InvalidArgumentError(
        fmt::format("the LSN '{}' stands for no place in the log", text));
  }
  return lsn;
}

}  // namespace tidemark::capture::postgres
