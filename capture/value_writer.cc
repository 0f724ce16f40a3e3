#include "capture/value_writer.h"

#include <cstring>

#include "tidemark/v1/change.pb.h"

namespace tidemark::capture {
namespace {

// Longest varint.
constexpr size_t kVarintBytesMax = 10;

constexpr uint8_t VarintTag(int field) { return static_cast<uint8_t>(field << 3); }
constexpr uint8_t Fixed64Tag(int field) { return static_cast<uint8_t>(field << 3 | 1); }
constexpr uint8_t LengthTag(int field) { return static_cast<uint8_t>(field << 3 | 2); }
constexpr uint8_t Fixed32Tag(int field) { return static_cast<uint8_t>(field << 3 | 5); }

char* WriteVarint(uint64_t value, char* at) {
  while (value >= 0x80) {
    *at++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<char>(value);
  return at;
}

template <typename Unsigned>
char* WriteLittle(Unsigned value, char* at) {
  for (size_t i = 0; i < sizeof(value); ++i, value >>= 8) *at++ = static_cast<char>(value & 0xFF);
  return at;
}

// A Value whose member is a varint.
void AppendVarintValue(ValueTag tag, int member, uint64_t value, std::string* out) {
  char buffer[2 + 1 + kVarintBytesMax];
  buffer[0] = static_cast<char>(tag);
  buffer[1] = static_cast<char>(1 + VarintBytes(value));
  buffer[2] = static_cast<char>(VarintTag(member));
  const char* end = WriteVarint(value, buffer + 3);
  out->append(buffer, end - buffer);
}

// What stands before the bytes of a Value whose member is a string or bytes.
void AppendBytesHeader(ValueTag tag, int member, size_t size, std::string* out) {
  char buffer[2 + 2 * kVarintBytesMax];
  buffer[0] = static_cast<char>(tag);
  char* at = WriteVarint(1 + VarintBytes(size) + size, buffer + 1);
  *at++ = static_cast<char>(LengthTag(member));
  at = WriteVarint(size, at);
  out->append(buffer, at - buffer);
}

void AppendBytesValue(ValueTag tag, int member, std::string_view bytes, std::string* out) {
  AppendBytesHeader(tag, member, bytes.size(), out);
  out->append(bytes);
}

}  // namespace

void AppendVarint(uint64_t value, std::string* out) {
  char buffer[kVarintBytesMax];
  const char* end = WriteVarint(value, buffer);
  out->append(buffer, end - buffer);
}

void AppendAbsent(ValueTag tag, std::string* out) {
  const char buffer[] = {static_cast<char>(tag), 0};
  out->append(buffer, sizeof(buffer));
}

void AppendNull(ValueTag tag, std::string* out) {
  AppendVarintValue(tag, v1::Value::kNullFieldNumber, v1::NULL_VALUE_UNSPECIFIED, out);
}

void AppendBoolean(ValueTag tag, bool value, std::string* out) {
  AppendVarintValue(tag, v1::Value::kBooleanFieldNumber, value ? 1 : 0, out);
}

void AppendInteger(ValueTag tag, int64_t value, std::string* out) {
  AppendVarintValue(tag, v1::Value::kIntegerFieldNumber, static_cast<uint64_t>(value), out);
}

void AppendUnsignedInteger(ValueTag tag, uint64_t value, std::string* out) {
  AppendVarintValue(tag, v1::Value::kUnsignedIntegerFieldNumber, value, out);
}

void AppendFloat32(ValueTag tag, float value, std::string* out) {
  char buffer[3 + sizeof(value)] = {static_cast<char>(tag), 1 + sizeof(value),
                                    static_cast<char>(Fixed32Tag(v1::Value::kFloat32FieldNumber))};
  WriteLittle(std::bit_cast<uint32_t>(value), buffer + 3);
  out->append(buffer, sizeof(buffer));
}

void AppendFloat64(ValueTag tag, double value, std::string* out) {
  char buffer[3 + sizeof(value)] = {static_cast<char>(tag), 1 + sizeof(value),
                                    static_cast<char>(Fixed64Tag(v1::Value::kFloat64FieldNumber))};
  WriteLittle(std::bit_cast<uint64_t>(value), buffer + 3);
  out->append(buffer, sizeof(buffer));
}

void AppendDecimal(ValueTag tag, std::string_view text, std::string* out) {
  AppendBytesValue(tag, v1::Value::kDecimalFieldNumber, text, out);
}

void AppendText(ValueTag tag, std::string_view text, std::string* out) {
  AppendBytesValue(tag, v1::Value::kTextFieldNumber, text, out);
}

void AppendJson(ValueTag tag, std::string_view text, std::string* out) {
  AppendBytesValue(tag, v1::Value::kJsonFieldNumber, text, out);
}

void AppendTemporal(ValueTag tag, std::string_view text, std::string* out) {
  AppendBytesValue(tag, v1::Value::kTemporalFieldNumber, text, out);
}

void AppendBinary(ValueTag tag, std::string_view bytes, std::string* out) {
  AppendBytesValue(tag, v1::Value::kBinaryFieldNumber, bytes, out);
}

char* AppendBinaryRoom(ValueTag tag, size_t size, std::string* out) {
  AppendBytesHeader(tag, v1::Value::kBinaryFieldNumber, size, out);
  out->resize(out->size() + size);
  return out->data() + out->size() - size;
}

void AppendSerialized(ValueTag tag, std::string_view value, std::string* out) {
  out->push_back(static_cast<char>(tag));
  AppendVarint(value.size(), out);
  out->append(value);
}

void AppendInParts(ValueTag tag, uint64_t size_bytes, std::string* out) {
  OpenField value(static_cast<uint8_t>(tag), out);
  OpenField parts(LengthTag(v1::Value::kInPartsFieldNumber), out);
  // A proto3 field that is 0 is not written.
  if (size_bytes != 0) {
    out->push_back(static_cast<char>(VarintTag(v1::ValueInParts::kSizeBytesFieldNumber)));
    AppendVarint(size_bytes, out);
  }
  parts.Close();
  value.Close();
}

OpenField::OpenField(uint8_t tag, std::string* out) : out_(out) {
  out_->push_back(static_cast<char>(tag));
  // Room for a length below 128, which most are.
  out_->push_back(0);
  begin_ = out_->size();
}

void OpenField::Close() {
  const size_t length = out_->size() - begin_;
  char buffer[kVarintBytesMax];
  const size_t length_bytes = WriteVarint(length, buffer) - buffer;
  if (length_bytes > 1) out_->insert(begin_, length_bytes - 1, '\0');
  std::memcpy(out_->data() + begin_ - 1, buffer, length_bytes);
}

OpenListValue::OpenListValue(ValueTag tag, std::string* out)
    : out_(out),
      value_(static_cast<uint8_t>(tag), out),
      list_(LengthTag(v1::Value::kListFieldNumber), out) {}

void OpenListValue::SetLowerBounds(const int32_t* bounds, size_t count) {
  OpenField packed(LengthTag(v1::ListValue::kLowerBoundsFieldNumber), out_);
  for (size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(bounds[i]);
    AppendVarint(bits << 1 ^ (bounds[i] < 0 ? UINT32_MAX : 0), out_);
  }
  packed.Close();
}

void OpenListValue::Close() {
  list_.Close();
  value_.Close();
}

OpenCompositeValue::OpenCompositeValue(ValueTag tag, std::string* out)
    : value_(static_cast<uint8_t>(tag), out),
      composite_(LengthTag(v1::Value::kCompositeFieldNumber), out) {}

void OpenCompositeValue::Close() {
  composite_.Close();
  value_.Close();
}

namespace {

// Length of the well-formed sequence at `at` (Unicode, table 3-7), 0 when there is none.
size_t SequenceBytes(const unsigned char* at, size_t left) {
  const unsigned char lead = at[0];
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at[i] & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies above U+10FFFF.
  if (lead == 0xE0 && at[1] < 0xA0) return 0;
  if (lead == 0xED && at[1] > 0x9F) return 0;
  if (lead == 0xF0 && at[1] < 0x90) return 0;
  if (lead == 0xF4 && at[1] > 0x8F) return 0;
  return length;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    uint64_t word;
    if (end - at >= 8 && (std::memcpy(&word, at, 8), (word & 0x8080808080808080) == 0)) {
      at += 8;
      continue;
    }
    const size_t length = SequenceBytes(at, end - at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace tidemark::capture
