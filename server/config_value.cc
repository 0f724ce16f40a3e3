#include "server/config_value.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace tidemark {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

// In milliseconds.
constexpr std::array<Unit, 5> kDurationUnits = {
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
// In bytes.
constexpr std::array<Unit, 5> kByteUnits = {{{"B", 1},
                                             {"KiB", uint64_t{1} << 10},
                                             {"MiB", uint64_t{1} << 20},
                                             {"GiB", uint64_t{1} << 30},
                                             {"TiB", uint64_t{1} << 40}}};
// About 292 years, far from where a Duration ends.
constexpr uint64_t kQuantityMax = uint64_t{1} << 53;

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// nullopt unless `text` is a number followed by one of the units, and the product is in range.
template <size_t n>
std::optional<uint64_t> ParseQuantity(std::string_view text, const std::array<Unit, n>& units) {
  size_t digits = 0;
  while (digits < text.size() && IsDigit(text[digits])) ++digits;
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + digits, number);
  if (digits == 0 || parsed.ec != std::errc()) return std::nullopt;
  for (const Unit& unit : units) {
    if (text.substr(digits) != unit.name) continue;
    if (number > kQuantityMax / unit.factor) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

bool IsVariableName(std::string_view name) {
  if (name.empty() || IsDigit(name[0])) return false;
  for (const char c : name) {
    if (!IsDigit(c) && c != '_' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  const auto milliseconds = ParseQuantity(text, kDurationUnits);
  if (!milliseconds) {
    return Invalid("expects a whole number with its unit: 500ms, 30s, 5m, 12h or 7d");
  }
  return absl::Milliseconds(static_cast<int64_t>(*milliseconds));
}

absl::StatusOr<uint64_t> ParseByteSize(std::string_view text) {
  const auto bytes = ParseQuantity(text, kByteUnits);
  if (!bytes) {
    return Invalid("expects a whole number with its unit: 100B, 512KiB, 64MiB, 10GiB or 1TiB");
  }
  return *bytes;
}

absl::StatusOr<uint64_t> ParseUnsigned(std::string_view text, uint64_t max) {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      number > max) {
    return Invalid(fmt::format("expects a whole number from 0 to {}", max));
  }
  return number;
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return Invalid("expects true or false");
}

absl::StatusOr<std::string> ExpandEnvironment(std::string_view text,
                                              const EnvironmentLookup& lookup) {
  std::string expanded;
  while (true) {
    const size_t found = text.find("${");
    if (found == std::string_view::npos) return expanded.append(text);
    if (found > 0 && text[found - 1] == '$') {
      expanded.append(text.substr(0, found - 1)).append("${");
      text.remove_prefix(found + 2);
      continue;
    }
    expanded.append(text.substr(0, found));
    text.remove_prefix(found + 2);
    const size_t end = text.find('}');
    const std::string name(text.substr(0, end));
    if (end == std::string_view::npos || !IsVariableName(name)) {
      return Invalid("expects ${NAME}, the name of an environment variable ($${ for a plain ${)");
    }
    const auto value = lookup(name);
    if (!value) return Invalid(fmt::format("the environment variable {} is not set", name));
    expanded.append(*value);
    text.remove_prefix(end + 1);
  }
}

}  // namespace tidemark
