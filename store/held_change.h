// A change whose after-image has values that come in parts, held until they are whole. Owned by one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/position.h"
#include "store/run_walker.h"

namespace tidemark::store {

// Which change, and what kind.
struct ChangeId {
  Position position;
  uint64_t sequence = 0;
  v1::Op op = v1::OP_UNSPECIFIED;
  bool key_change = false;
};

class HeldChange {
 public:
  // True when a value of the image comes in parts.
  static bool Needed(const std::vector<std::string_view>& after);

  // Copies `after`.
  HeldChange(const ChangeId& id, uint64_t schema_id, const std::vector<std::string_view>& after);

  // False for a piece that does not go on where the one before ended, or belongs to no value that
  // is awaited.
  bool Add(const PartView& part);

  bool whole() const { return missing_ == 0; }
  const ChangeId& id() const { return id_; }
  uint64_t schema_id() const { return schema_id_; }
  // Serialized Values, one per column; valid as long as this. REQUIRES: whole().
  std::vector<std::string_view> after() const;

 private:
  struct Column {
    std::string value;
    bool awaited = false;
  };

  ChangeId id_;
  uint64_t schema_id_;
  std::vector<Column> columns_;
  size_t missing_ = 0;
};

}  // namespace tidemark::store
