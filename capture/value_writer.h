// Writes tidemark.v1.Value messages in wire form, without building messages: every function appends
// one length-delimited field that holds one Value. Pure; safe from any thread; appends to `out` and
// never reads what stands before. Byte-for-byte what protobuf's own serializer writes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark::capture {

// The field that a Value stands in, as its tag on the wire (field number << 3 | 2).
enum class ValueTag : uint8_t {
  kItem = 1 << 3 | 2,      // ListValue.items, CompositeValue.fields
  kRowValue = 3 << 3 | 2,  // Row.values
  kAfter = 4 << 3 | 2,     // Change.after
  kBefore = 5 << 3 | 2,    // Change.before
  kKey = 6 << 3 | 2,       // Change.key
};

inline size_t VarintBytes(uint64_t value) { return (std::bit_width(value | 1) + 6) / 7; }
void AppendVarint(uint64_t value, std::string* out);

// A Value with no member set: the source did not say what the column holds.
void AppendAbsent(ValueTag tag, std::string* out);
void AppendNull(ValueTag tag, std::string* out);
void AppendBoolean(ValueTag tag, bool value, std::string* out);
void AppendInteger(ValueTag tag, int64_t value, std::string* out);
void AppendUnsignedInteger(ValueTag tag, uint64_t value, std::string* out);
void AppendFloat32(ValueTag tag, float value, std::string* out);
void AppendFloat64(ValueTag tag, double value, std::string* out);
// The text must be valid UTF-8 (IsUtf8), or no client can parse the message.
void AppendDecimal(ValueTag tag, std::string_view text, std::string* out);
void AppendText(ValueTag tag, std::string_view text, std::string* out);
void AppendJson(ValueTag tag, std::string_view text, std::string* out);
void AppendTemporal(ValueTag tag, std::string_view text, std::string* out);
void AppendBinary(ValueTag tag, std::string_view bytes, std::string* out);
// Room for `size` bytes, which the caller writes before anything else is appended.
char* AppendBinaryRoom(ValueTag tag, size_t size, std::string* out);
// A Value that is serialized already.
void AppendSerialized(ValueTag tag, std::string_view value, std::string* out);
// Stands in for a Value of `size_bytes` serialized bytes that follow in parts.
void AppendInParts(ValueTag tag, uint64_t size_bytes, std::string* out);

// A length-delimited field whose length is known only at its end: everything appended between
// construction and Close belongs to it. Fields nest; close the inner one first.
class OpenField {
 public:
  OpenField(uint8_t tag, std::string* out);
  void Close();

 private:
  std::string* out_;
  size_t begin_;
};

// A Value whose member is a message: a list or a composite. Append the items (ValueTag::kItem) and
// Close.
class OpenListValue {
 public:
  OpenListValue(ValueTag tag, std::string* out);
  // Lower bounds of the dimensions, outermost first; after the items, at most once.
  void SetLowerBounds(const int32_t* bounds, size_t count);
  void Close();

 private:
  std::string* out_;
  OpenField value_;
  OpenField list_;
};

class OpenCompositeValue {
 public:
  OpenCompositeValue(ValueTag tag, std::string* out);
  void Close();

 private:
  OpenField value_;
  OpenField composite_;
};

bool IsUtf8(std::string_view text);

}  // namespace tidemark::capture
