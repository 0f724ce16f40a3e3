#include "server/wire_fields.h"

namespace tidemark {

bool WireFields::Varint(uint64_t* value) {
  *value = 0;
  for (unsigned i = 0; i < 10 && i < rest_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest_[i]);
    *value |= static_cast<uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return true;
    }
  }
  return Fail();
}

bool WireFields::Next(WireField* field) {
  if (rest_.empty() || !ok_) return false;
  const char* const begin = rest_.data();
  uint64_t tag = 0;
  if (!Varint(&tag)) return false;
  field->number = static_cast<uint32_t>(tag >> 3);
  field->wire_type = static_cast<uint32_t>(tag & 7);
  uint64_t length = 0;
  switch (field->wire_type) {
    case 0:
      if (!Varint(&field->number_value)) return false;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      if (!Varint(&length)) return false;
      break;
    case 5:
      length = 4;
      break;
    default:
      return Fail();
  }
  if (length > rest_.size()) return Fail();
  field->bytes = rest_.substr(0, length);
  rest_.remove_prefix(length);
  field->whole = std::string_view(begin, rest_.data() - begin);
  return true;
}

}  // namespace tidemark
