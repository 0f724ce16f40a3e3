#include "tests/store/sample_log.h"

#include <algorithm>

#include "proto/schema_id.h"

namespace tidemark::store {
namespace {

v1::Change WithAfter(v1::Op op, int64_t id, const std::vector<v1::Value>& rest) {
  v1::Change change;
  change.set_op(op);
  *change.add_after() = IntegerValue(id);
  for (const v1::Value& value : rest) *change.add_after() = value;
  return change;
}

}  // namespace

v1::TableSchema SampleSchema(const std::string& table,
                             const std::vector<std::string>& text_columns) {
  v1::TableSchema schema;
  schema.set_schema_name("public");
  schema.set_table_name(table);
  v1::Column* id = schema.add_columns();
  id->set_name("id");
  id->set_source_type("bigint");
  id->set_form(v1::VALUE_FORM_INTEGER);
  for (const std::string& name : text_columns) {
    v1::Column* column = schema.add_columns();
    column->set_name(name);
    column->set_source_type("text");
    column->set_form(v1::VALUE_FORM_TEXT);
  }
  schema.add_key_columns(0);
  schema.set_image_level(v1::IMAGE_LEVEL_KEY);
  schema.set_schema_id(SchemaId(schema));
  return schema;
}

v1::Value IntegerValue(int64_t number) {
  v1::Value value;
  value.set_integer(number);
  return value;
}

v1::Value TextValue(const std::string& text) {
  v1::Value value;
  value.set_text(text);
  return value;
}

v1::Value NullOfDatabase() {
  v1::Value value;
  value.set_null(v1::NULL_VALUE_UNSPECIFIED);
  return value;
}

v1::Value AbsentValue() { return {}; }

v1::Change Insert(int64_t id, const std::vector<v1::Value>& rest) {
  return WithAfter(v1::OP_INSERT, id, rest);
}

v1::Change Update(int64_t id, const std::vector<v1::Value>& rest) {
  return WithAfter(v1::OP_UPDATE, id, rest);
}

v1::Change Delete(int64_t id) {
  v1::Change change;
  change.set_op(v1::OP_DELETE);
  *change.add_key() = IntegerValue(id);
  return change;
}

v1::Change Truncate() {
  v1::Change change;
  change.set_op(v1::OP_TRUNCATE);
  return change;
}

std::vector<v1::Change> KeyChange(int64_t from, int64_t to, const std::vector<v1::Value>& rest) {
  std::vector<v1::Change> halves = {Delete(from), Insert(to, rest)};
  for (v1::Change& half : halves) half.set_key_change(true);
  return halves;
}

std::string RunBytes(const v1::TableSchema& schema, const std::vector<v1::Change>& changes) {
  v1::Run run;
  run.add_schema_ids(schema.schema_id());
  for (const v1::Change& change : changes) {
    v1::Change* added = run.add_changes();
    *added = change;
    added->set_ordinal(static_cast<uint32_t>(run.changes_size() - 1));
  }
  return run.SerializeAsString();
}

StoredRun SampleLog::Keep(uint64_t position, uint64_t changes, uint32_t part, std::string bytes) {
  const Position at = Position::Of(1, position);
  if (at != position_) sequence_ = 0;
  position_ = at;
  bytes_.push_back(std::move(bytes));
  StoredRun run;
  run.position = at;
  run.first_sequence = part == 0 ? sequence_ : sequence_ - 1;
  run.part = part;
  run.bytes = bytes_.back();
  sequence_ += changes;
  return run;
}

StoredRun SampleLog::Run(uint64_t position, const v1::TableSchema& schema,
                         const std::vector<v1::Change>& changes) {
  AddSchema(schema);
  return Keep(position, changes.size(), 0, RunBytes(schema, changes));
}

std::vector<StoredRun> SampleLog::RunInParts(uint64_t position, const v1::TableSchema& schema,
                                             v1::Change change, int column, size_t piece_bytes) {
  const std::string value = change.after(column).SerializeAsString();
  change.mutable_after(column)->mutable_in_parts()->set_size_bytes(value.size());
  std::vector<StoredRun> runs = {Run(position, schema, {change})};
  uint32_t part = 0;
  for (size_t at = 0; at < value.size(); at += piece_bytes) {
    v1::Run run;
    v1::ValuePart* piece = run.add_value_parts();
    piece->set_image(v1::IMAGE_AFTER);
    piece->set_column(static_cast<uint32_t>(column));
    piece->set_offset_bytes(at);
    piece->set_data(value.substr(at, piece_bytes));
    piece->set_last(at + piece_bytes >= value.size());
    runs.push_back(Keep(position, 0, ++part, run.SerializeAsString()));
  }
  return runs;
}

}  // namespace tidemark::store
