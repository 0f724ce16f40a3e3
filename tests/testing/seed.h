// Where the random tests take their seed from, so that a run can be had again: tests/README.md.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace tidemark::testing {

inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// TIDEMARK_SEED, or 1.
inline uint64_t SeedFromEnvironment() { return NumberFromEnvironment("TIDEMARK_SEED", 1); }

// TIDEMARK_LONG: the long form of what takes long.
inline bool IsLong() { return NumberFromEnvironment("TIDEMARK_LONG", 0) != 0; }

}  // namespace tidemark::testing
