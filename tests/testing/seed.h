// Where the random tests take their seed from, so that a run can be had again: tests/README.md.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace tidemark::testing {

inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// TIDEMARK_SEED, or 1.
inline uint64_t SeedFromEnvironment() { return NumberFromEnvironment("TIDEMARK_SEED", 1); }

// TIDEMARK_LONG, set to anything but 0: the long form of what takes long.
inline bool IsLong() {
  const char* text = std::getenv("TIDEMARK_LONG");
  return text != nullptr && std::string_view(text) != "" && std::string_view(text) != "0";
}

}  // namespace tidemark::testing
