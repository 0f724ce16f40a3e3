#include "proto/position.h"

namespace tidemark {
namespace {

void StoreBig(char* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i, value >>= 8) out[i] = static_cast<char>(value & 0xFF);
}

uint64_t LoadBig(const char* in, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(in[i]);
  return value;
}

// -1 for anything but 0-9 and A-F: lower case would give one position two texts.
int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Position Position::Of(uint32_t generation, std::string_view engine, uint32_t ordinal) {
  Position position;
  char* out = position.bytes_.data();
  StoreBig(out, generation, 4);
  std::memcpy(out + 4 + kEngineBytes - engine.size(), engine.data(), engine.size());
  StoreBig(out + 4 + kEngineBytes, ordinal, 4);
  return position;
}

Position Position::Of(uint32_t generation, uint64_t engine, uint32_t ordinal) {
  char bytes[8];
  StoreBig(bytes, engine, 8);
  return Of(generation, std::string_view(bytes, 8), ordinal);
}

absl::StatusOr<Position> Position::FromBytes(std::string_view bytes) {
  if (bytes.size() != kBytes) return absl::InvalidArgumentError("a position is 20 bytes long");
  Position position;
  std::memcpy(position.bytes_.data(), bytes.data(), kBytes);
  return position;
}

absl::StatusOr<Position> Position::FromText(std::string_view text) {
  const auto malformed = [] {
    return absl::InvalidArgumentError("a position is 40 upper-case hexadecimal digits");
  };
  if (text.size() != kTextBytes) return malformed();
  Position position;
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = HexDigit(text[2 * i]);
    const int low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return malformed();
    position.bytes_[i] = static_cast<char>(high << 4 | low);
  }
  return position;
}

std::string Position::Text() const {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text(kTextBytes, '0');
  for (size_t i = 0; i < kBytes; ++i) {
    const auto byte = static_cast<unsigned char>(bytes_[i]);
    text[2 * i] = kDigits[byte >> 4];
    text[2 * i + 1] = kDigits[byte & 15];
  }
  return text;
}

uint32_t Position::generation() const { return static_cast<uint32_t>(LoadBig(bytes_.data(), 4)); }

uint32_t Position::ordinal() const {
  return static_cast<uint32_t>(LoadBig(bytes_.data() + 4 + kEngineBytes, 4));
}

uint64_t Position::engine_low() const { return LoadBig(bytes_.data() + 4 + kEngineBytes - 8, 8); }

Position Position::WithOrdinal(uint32_t ordinal) const {
  Position position = *this;
  StoreBig(position.bytes_.data() + 4 + kEngineBytes, ordinal, 4);
  return position;
}

}  // namespace tidemark
