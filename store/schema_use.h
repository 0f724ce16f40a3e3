// Where the schemas of one transaction begin to hold, as read from its runs. A plain value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/encoded_transaction.h"

namespace tidemark::store {

// The table of a schema id, by its key (see TableKey); nullopt when the id is unknown.
using TableOfSchema = std::function<std::optional<std::string_view>(uint64_t)>;

class SchemaUse {
 public:
  struct Step {
    uint64_t sequence = 0;
    uint64_t schema_id = 0;
  };

  // Runs in order of sequence. False when a run is malformed or names an unknown schema.
  bool Add(const EncodedRun& run, const TableOfSchema& table_of);

  // Every change of a table from one schema to another, the first use included, in order.
  const std::vector<Step>& steps() const { return steps_; }

 private:
  bool Use(uint64_t schema_id, uint64_t sequence, const TableOfSchema& table_of);
  bool AllInForce(const std::vector<uint64_t>& schema_ids, const TableOfSchema& table_of) const;

  // Schema in force by table.
  absl::flat_hash_map<std::string, uint64_t> current_;
  std::vector<Step> steps_;
};

}  // namespace tidemark::store
