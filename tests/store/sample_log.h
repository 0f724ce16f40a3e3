// Small schemas, changes and runs, as capture would build them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/encoded_transaction.h"
#include "proto/position.h"
#include "store/log_reader.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

// Columns `id` (integer, the key), `name` and `note` (text), or those named; the id is set.
v1::TableSchema SampleSchema(const std::string& table,
                             const std::vector<std::string>& text_columns = {"name", "note"});

v1::Value IntegerValue(int64_t number);
v1::Value TextValue(const std::string& text);
v1::Value NullOfDatabase();
v1::Value AbsentValue();

v1::Change Insert(int64_t id, const std::vector<v1::Value>& rest);
v1::Change Update(int64_t id, const std::vector<v1::Value>& rest);
v1::Change Delete(int64_t id);
v1::Change Truncate();
// The two halves of an update that changes the key.
std::vector<v1::Change> KeyChange(int64_t from, int64_t to, const std::vector<v1::Value>& rest);

// One run of changes to one table.
std::string RunBytes(const v1::TableSchema& schema, const std::vector<v1::Change>& changes);

// Owns the bytes that its runs show.
class SampleLog {
 public:
  void AddSchema(const v1::TableSchema& schema) { schemas_[schema.schema_id()] = schema; }
  const std::map<uint64_t, v1::TableSchema>& schemas() const { return schemas_; }

  // One run each; the sequence counts on within a position.
  StoredRun Run(uint64_t position, const v1::TableSchema& schema,
                const std::vector<v1::Change>& changes);
  // An insert whose column `column` comes in pieces of `piece_bytes`: the change, then the pieces.
  std::vector<StoredRun> RunInParts(uint64_t position, const v1::TableSchema& schema,
                                    v1::Change change, int column, size_t piece_bytes);

 private:
  StoredRun Keep(uint64_t position, uint64_t changes, uint32_t part, std::string bytes);

  std::map<uint64_t, v1::TableSchema> schemas_;
  std::deque<std::string> bytes_;
  Position position_;
  uint64_t sequence_ = 0;
};

}  // namespace tidemark::store
