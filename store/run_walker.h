// Walks a serialized tidemark.v1.Run in place: no message object, no allocation per change. Owned
// by one thread; views are into the bytes given and valid until they are gone, or until the next
// call of Next.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "store/wire.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

// A tidemark.v1.Change. Each value is a serialized tidemark.v1.Value; an empty one is absent.
struct ChangeView {
  v1::Op op = v1::OP_UNSPECIFIED;
  uint32_t table = 0;
  uint32_t ordinal = 0;
  bool key_change = false;
  std::vector<std::string_view> after;
  std::vector<std::string_view> before;
  std::vector<std::string_view> key;
};

// A tidemark.v1.ValuePart.
struct PartView {
  uint32_t ordinal = 0;
  v1::Image image = v1::IMAGE_UNSPECIFIED;
  uint32_t column = 0;
  uint64_t offset_bytes = 0;
  std::string_view data;
  bool last = false;
};

class RunWalker {
 public:
  enum class Item { kEnd, kChange, kPart, kDamaged };

  void Start(std::string_view run);

  // Moves to the next change or piece of a value, in the order of the bytes.
  Item Next();

  // What Next moved to.
  const ChangeView& change() const { return change_; }
  const PartView& part() const { return part_; }
  // Complete once Next has returned a change.
  const std::vector<uint64_t>& schema_ids() const { return schema_ids_; }

 private:
  bool ReadSchemaIds(const WireField& field);
  bool ReadChange(std::string_view message);
  bool ReadPart(std::string_view message);

  WireReader reader_{{}};
  std::vector<uint64_t> schema_ids_;
  ChangeView change_;
  PartView part_;
};

// Whether a serialized Value only says that its bytes follow in parts.
bool IsInParts(std::string_view serialized_value);

}  // namespace tidemark::store
