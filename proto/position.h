// Where a commit stands in a feed. A pure value: no I/O, no database, safe to use from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidemark {

// 20 bytes whose memcmp order is the feed's order: generation (4, big-endian) | the engine's own
// position, left-padded with zeros (12) | ordinal (4, big-endian). Ordinal 0 is the source's own
// commit; 1, 2, … are transactions that Tidemark makes behind it. As a boundary, a position stands
// for everything at or before it.
class Position {
 public:
  static constexpr size_t kBytes = 20;
  static constexpr size_t kEngineBytes = 12;
  static constexpr size_t kTextBytes = 2 * kBytes;

  // Before everything.
  constexpr Position() = default;

  // `engine` is at most kEngineBytes long and big-endian; a shorter one is left-padded.
  // REQUIRES: engine.size() <= kEngineBytes.
  static Position Of(uint32_t generation, std::string_view engine, uint32_t ordinal);
  // For engines whose position is one 64-bit number (an LSN, the number of a poll).
  static Position Of(uint32_t generation, uint64_t engine, uint32_t ordinal = 0);

  // InvalidArgument unless `bytes` is exactly kBytes long.
  static absl::StatusOr<Position> FromBytes(std::string_view bytes);
  // InvalidArgument unless `text` is exactly kTextBytes upper-case hexadecimal digits.
  static absl::StatusOr<Position> FromText(std::string_view text);

  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }
  // __pos: upper-case hexadecimal of the bytes.
  std::string Text() const;

  uint32_t generation() const;
  uint32_t ordinal() const;
  std::string_view engine() const { return {bytes_.data() + 4, kEngineBytes}; }
  // The last 8 bytes of the engine's position.
  uint64_t engine_low() const;

  Position WithOrdinal(uint32_t ordinal) const;
  // The boundary that a native bound names: behind every ordinal at this engine position.
  Position AfterAllOrdinals() const { return WithOrdinal(UINT32_MAX); }

  friend bool operator==(const Position& a, const Position& b) { return a.bytes_ == b.bytes_; }
  friend std::strong_ordering operator<=>(const Position& a, const Position& b) {
    return std::memcmp(a.bytes_.data(), b.bytes_.data(), kBytes) <=> 0;
  }

 private:
  std::array<char, kBytes> bytes_{};
};

}  // namespace tidemark
