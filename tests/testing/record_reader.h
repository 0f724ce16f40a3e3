// Reads the records of one stream into changes. Values in parts
// are put together, schemas are looked up, every breach of the rules is an error.
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "tests/testing/recorded_stream.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::testing {

class RecordReader {
 public:
  absl::Status Read(const v1::SubscribeResponse& record);

  const std::vector<RecordedTransaction>& transactions() const { return transactions_; }
  const std::vector<RecordedChange>& rows() const { return rows_; }
  bool rows_finished() const { return rows_finished_; }

 private:
  // A change or row whose values are not all there yet.
  struct Unfinished {
    v1::Change change;
    uint64_t schema_id = 0;
    std::string position;
    uint64_t sequence = 0;
    uint64_t label = 0;
    std::map<std::tuple<int, uint32_t>, std::string> parts;
  };

  absl::Status ReadTransaction(const v1::Transaction& part);
  absl::Status ReadRun(const v1::Run& run, const std::string& position);
  absl::Status ReadRows(const v1::Rows& rows);
  absl::Status ReadPart(const v1::ValuePart& part, uint64_t label);
  absl::Status FinishChange(std::vector<RecordedChange>* out);
  absl::Status FinishTransaction(const v1::Transaction& part);

  std::map<uint64_t, v1::TableSchema> schemas_;
  std::vector<RecordedTransaction> transactions_;
  std::vector<RecordedChange> rows_;
  bool rows_finished_ = false;
  bool unfinished_set_ = false;
  Unfinished unfinished_;
};

// As PostgreSQL prints it (see Columns).
std::string ValueText(const v1::Value& value);

}  // namespace tidemark::testing
