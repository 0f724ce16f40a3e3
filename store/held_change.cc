#include "store/held_change.h"

#include <algorithm>

namespace tidemark::store {

bool HeldChange::Needed(const std::vector<std::string_view>& after) {
  return std::any_of(after.begin(), after.end(), IsInParts);
}

HeldChange::HeldChange(const ChangeId& id, uint64_t schema_id,
                       const std::vector<std::string_view>& after)
    : id_(id), schema_id_(schema_id) {
  for (const std::string_view value : after) {
    const bool awaited = IsInParts(value);
    missing_ += awaited ? 1 : 0;
    columns_.push_back({awaited ? std::string() : std::string(value), awaited});
  }
}

bool HeldChange::Add(const PartView& part) {
  if (part.image != v1::IMAGE_AFTER) return true;
  if (part.column >= columns_.size()) return false;
  Column& column = columns_[part.column];
  if (!column.awaited || part.offset_bytes != column.value.size()) return false;
  column.value.append(part.data);
  if (part.last) {
    column.awaited = false;
    --missing_;
  }
  return true;
}

std::vector<std::string_view> HeldChange::after() const {
  std::vector<std::string_view> values;
  values.reserve(columns_.size());
  for (const Column& column : columns_) values.push_back(column.value);
  return values;
}

}  // namespace tidemark::store
