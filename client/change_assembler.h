// Turns runs and rows into changes with whole values: a value that came in parts is put together
// before its change is handed on, in order.
//
// Legal order within a transaction, or within the rows of a bootstrap:
//   (change | row) whose values stand, or
//   (change | row) with ValueInParts, then its parts, by value and offset, the last marked
// where parts may stand in the same record as their change, or in records behind it. Anything else
// is CONTRACT_BROKEN.
//
// Thread rule: one thread at a time. Memory: at most `held_bytes_max` for values in parts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "client/change_view.h"

namespace tidemark::client {

class ChangeAssembler {
 public:
  // The view is valid during the call.
  using Sink = std::function<absl::Status(const ChangeView&)>;

  explicit ChangeAssembler(uint64_t held_bytes_max) : held_bytes_max_(held_bytes_max) {}

  void AddSchema(const v1::TableSchema& schema);
  // Null when it was not announced.
  const v1::TableSchema* FindSchema(uint64_t schema_id) const;

  // Hands over every change that is whole now, in order. Errors of `sink` come back as they are.
  absl::Status TakeRun(std::string_view position, const v1::Run& run, const Sink& sink);
  absl::Status TakeRows(const v1::Rows& rows, const Sink& sink);
  // The transaction, or the bootstrap, ends here: an error when a value is incomplete.
  absl::Status CheckNothingHeld() const;
  // A new stream begins: schemas are announced again, and what is incomplete comes again.
  void Clear();

 private:
  // A change that waits: for its own parts, or for one before it.
  struct Held {
    const v1::TableSchema* schema;
    std::string position;
    uint64_t sequence;
    // What ValuePart.ordinal names: the sequence of a change, the index of a row.
    uint64_t label;
    v1::Change change;
    std::map<std::pair<v1::Image, uint32_t>, std::string> partial;
    int values_missing;
    uint64_t bytes;
  };

  absl::Status TakeChange(const v1::TableSchema& schema, std::string_view position,
                          uint64_t sequence, uint64_t label, const v1::Change& change,
                          const Sink& sink);
  absl::Status TakePart(uint64_t label, const v1::ValuePart& part);
  absl::Status HandOverWhole(const Sink& sink);
  absl::Status Hold(Held held);

  const uint64_t held_bytes_max_;
  uint64_t held_bytes_ = 0;
  std::deque<Held> held_;
  std::unordered_map<uint64_t, v1::TableSchema> schemas_;
};

// An error with the reason CONTRACT_BROKEN.
absl::Status ContractBroken(std::string_view what);

}  // namespace tidemark::client
