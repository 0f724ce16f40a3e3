// One change as a reader sees it: a look at messages that somebody else owns, valid for the call
// that handed it over. Pure; safe from any thread as long as nobody changes what it looks at.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::client {

// Absent: the source did not say what the column holds. Never the same as NULL.
inline bool IsAbsent(const v1::Value& value) {
  return value.kind_case() == v1::Value::KIND_NOT_SET;
}
inline bool IsNull(const v1::Value& value) { return value.kind_case() == v1::Value::kNull; }

class ChangeView {
 public:
  using Values = google::protobuf::RepeatedPtrField<v1::Value>;

  // All of them must outlive the view.
  ChangeView(const v1::TableSchema& schema, std::string_view position, uint64_t sequence,
             const v1::Change& change);
  // A current row, with the (position, sequence) that wrote it. Its op is OP_READ.
  ChangeView(const v1::TableSchema& schema, const v1::Row& row);

  // __op, __pos, __seq.
  v1::Op op() const { return op_; }
  std::string_view position() const { return position_; }
  uint64_t sequence() const { return sequence_; }
  // __table: schema.table, quoted as in Filter.tables, so that it can be used there.
  std::string table() const;
  const v1::TableSchema& schema() const { return *schema_; }
  // One of the two changes that stand for an update of the key.
  bool key_change() const { return key_change_; }

  // The images as they were sent: one value per column of the schema, or empty.
  const Values& after() const { return *after_; }
  const Values& before() const { return *before_; }

  // The value of every key column in key order, whatever the op; empty where the table has no key
  // and for truncate. An entry is null where the change does not say.
  std::vector<const v1::Value*> Key() const;

  // The value of a column: of the row after the change; of a deleted row its key columns, and the
  // others where the source gave the row. Null when there is no such column or it is absent.
  const v1::Value* Column(std::string_view name) const;
  // The same by index into schema().columns(). REQUIRES: index is one.
  const v1::Value* Column(int index) const;

 private:
  const v1::TableSchema* schema_;
  std::string_view position_;
  uint64_t sequence_;
  v1::Op op_;
  bool key_change_ = false;
  const Values* after_;
  const Values* before_;
  const Values* key_;
};

}  // namespace tidemark::client
