#include "store/row_value.h"

#include "store/key_format.h"
#include "store/wire.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::store {

void AppendRowHeader(const Position& position, uint64_t sequence, uint64_t schema_id,
                     std::string* row) {
  row->append(position.bytes());
  AppendBig64(row, sequence);
  AppendBig64(row, schema_id);
}

void AppendRowField(std::string_view serialized_value, std::string* row) {
  constexpr char kTag = static_cast<char>(v1::Row::kValuesFieldNumber << 3 |
                                          static_cast<int>(WireField::Type::kBytes));
  row->push_back(kTag);
  size_t size = serialized_value.size();
  for (; size >= 0x80; size >>= 7) row->push_back(static_cast<char>(size | 0x80));
  row->push_back(static_cast<char>(size));
  row->append(serialized_value);
}

std::optional<StoredRow> DecodeRow(std::string_view row) {
  if (row.size() < kRowHeaderBytes) return std::nullopt;
  StoredRow decoded;
  decoded.position = *Position::FromBytes(row.substr(0, Position::kBytes));
  decoded.sequence = ReadBig64(row.data() + Position::kBytes);
  decoded.schema_id = ReadBig64(row.data() + Position::kBytes + 8);
  decoded.values = row.substr(kRowHeaderBytes);
  return decoded;
}

bool SplitRowFields(std::string_view values, std::vector<std::string_view>* fields) {
  fields->clear();
  WireReader reader(values);
  WireField field;
  while (reader.Next(&field)) {
    if (field.id != v1::Row::kValuesFieldNumber || field.type != WireField::Type::kBytes) {
      return false;
    }
    fields->push_back(field.bytes);
  }
  return !reader.damaged();
}

}  // namespace tidemark::store
