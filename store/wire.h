// Reads the protobuf wire form in place, for the paths on which a message object per row is too
// dear. Plain values; views are into the bytes given.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidemark::store {

// One field. `number` holds varint and fixed fields; `bytes` length-delimited ones.
struct WireField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t id = 0;
  Type type = Type::kVarint;
  uint64_t number = 0;
  std::string_view bytes;
};

// Walks the fields of one message. Next is false at the end and at the first byte that makes no
// sense; damaged() tells the two apart.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : at_(message.data()), end_(at_ + message.size()) {}

  bool Next(WireField* field) {
    if (at_ == end_) return false;
    uint64_t tag;
    if (!Varint(&tag) || tag > UINT32_MAX || tag >> 3 == 0) return Fail();
    field->id = static_cast<uint32_t>(tag >> 3);
    field->type = static_cast<WireField::Type>(tag & 7);
    switch (field->type) {
      case WireField::Type::kVarint:
        return Varint(&field->number) || Fail();
      case WireField::Type::kFixed64:
        return Fixed(8, &field->number) || Fail();
      case WireField::Type::kFixed32:
        return Fixed(4, &field->number) || Fail();
      case WireField::Type::kBytes: {
        uint64_t size;
        if (!Varint(&size) || size > static_cast<uint64_t>(end_ - at_)) return Fail();
        field->bytes = {at_, static_cast<size_t>(size)};
        at_ += size;
        return true;
      }
    }
    return Fail();
  }

  bool damaged() const { return damaged_; }

 private:
  bool Fail() {
    damaged_ = true;
    at_ = end_;
    return false;
  }

  bool Varint(uint64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        *value = result;
        return true;
      }
    }
    return false;
  }

  bool Fixed(int size, uint64_t* value) {
    if (end_ - at_ < size) return false;
    uint64_t result = 0;
    for (int i = size - 1; i >= 0; --i) result = result << 8 | static_cast<unsigned char>(at_[i]);
    at_ += size;
    *value = result;
    return true;
  }

  const char* at_;
  const char* end_;
  bool damaged_ = false;
};

}  // namespace tidemark::store
