// Walks the fields of a serialized message without parsing what they hold. Bounds-checked: damaged
// bytes end the walk with ok() false. Pure; views into the given bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidemark {

struct WireField {
  uint32_t number = 0;
  // As in the protobuf encoding: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32.
  uint32_t wire_type = 0;
  // Of a varint.
  uint64_t number_value = 0;
  // Of a length-delimited or fixed field.
  std::string_view bytes;
  // Tag, length and content.
  std::string_view whole;
};

class WireFields {
 public:
  explicit WireFields(std::string_view message) : rest_(message) {}

  // False at the end, or where the bytes make no sense.
  bool Next(WireField* field);
  bool ok() const { return ok_; }

 private:
  bool Varint(uint64_t* value);
  bool Fail() {
    ok_ = false;
    return false;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tidemark
