#include "store/run_walker.h"

namespace tidemark::store {

using v1::Change;
using v1::Run;
using v1::ValuePart;

void RunWalker::Start(std::string_view run) {
  reader_ = WireReader(run);
  schema_ids_.clear();
}

RunWalker::Item RunWalker::Next() {
  WireField field;
  while (reader_.Next(&field)) {
    const bool is_bytes = field.type == WireField::Type::kBytes;
    switch (field.id) {
      case Run::kSchemaIdsFieldNumber:
        if (!ReadSchemaIds(field)) return Item::kDamaged;
        break;
      case Run::kChangesFieldNumber:
        return is_bytes && ReadChange(field.bytes) ? Item::kChange : Item::kDamaged;
      case Run::kValuePartsFieldNumber:
        return is_bytes && ReadPart(field.bytes) ? Item::kPart : Item::kDamaged;
      default:
        break;
    }
  }
  return reader_.damaged() ? Item::kDamaged : Item::kEnd;
}

bool RunWalker::ReadSchemaIds(const WireField& field) {
  if (field.type == WireField::Type::kFixed64) {
    schema_ids_.push_back(field.number);
    return true;
  }
  if (field.type != WireField::Type::kBytes || field.bytes.size() % 8 != 0) return false;
  for (size_t at = 0; at < field.bytes.size(); at += 8) {
    uint64_t id = 0;
    for (size_t i = 8; i-- > 0;) id = id << 8 | static_cast<unsigned char>(field.bytes[at + i]);
    schema_ids_.push_back(id);
  }
  return true;
}

bool RunWalker::ReadChange(std::string_view message) {
  change_.op = v1::OP_UNSPECIFIED;
  change_.table = 0;
  change_.ordinal = 0;
  change_.key_change = false;
  change_.after.clear();
  change_.before.clear();
  change_.key.clear();
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    const bool is_bytes = field.type == WireField::Type::kBytes;
    switch (field.id) {
      case Change::kOpFieldNumber:
        change_.op = static_cast<v1::Op>(field.number);
        break;
      case Change::kTableFieldNumber:
        change_.table = static_cast<uint32_t>(field.number);
        break;
      case Change::kOrdinalFieldNumber:
        change_.ordinal = static_cast<uint32_t>(field.number);
        break;
      case Change::kAfterFieldNumber:
        if (!is_bytes) return false;
        change_.after.push_back(field.bytes);
        break;
      case Change::kBeforeFieldNumber:
        if (!is_bytes) return false;
        change_.before.push_back(field.bytes);
        break;
      case Change::kKeyFieldNumber:
        if (!is_bytes) return false;
        change_.key.push_back(field.bytes);
        break;
      case Change::kKeyChangeFieldNumber:
        change_.key_change = field.number != 0;
        break;
      default:
        break;
    }
  }
  return !reader.damaged() && change_.table < schema_ids_.size();
}

bool RunWalker::ReadPart(std::string_view message) {
  part_ = {};
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) {
    switch (field.id) {
      case ValuePart::kOrdinalFieldNumber:
        part_.ordinal = static_cast<uint32_t>(field.number);
        break;
      case ValuePart::kImageFieldNumber:
        part_.image = static_cast<v1::Image>(field.number);
        break;
      case ValuePart::kColumnFieldNumber:
        part_.column = static_cast<uint32_t>(field.number);
        break;
      case ValuePart::kOffsetBytesFieldNumber:
        part_.offset_bytes = field.number;
        break;
      case ValuePart::kDataFieldNumber:
        if (field.type != WireField::Type::kBytes) return false;
        part_.data = field.bytes;
        break;
      case ValuePart::kLastFieldNumber:
        part_.last = field.number != 0;
        break;
      default:
        break;
    }
  }
  return !reader.damaged();
}

bool IsInParts(std::string_view serialized_value) {
  constexpr char kTag = static_cast<char>(v1::Value::kInPartsFieldNumber << 3 |
                                          static_cast<int>(WireField::Type::kBytes));
  return !serialized_value.empty() && serialized_value[0] == kTag;
}

}  // namespace tidemark::store
