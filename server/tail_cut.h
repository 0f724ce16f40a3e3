// Puts a filter over transactions that are encoded already. Pure apart from the filter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/run_filter.h"
#include "server/tail_chunk.h"

namespace tidemark {

// Appends what the filter leaves of `transaction`, a `transactions` field of v1::Batch with a whole
// transaction; false, and nothing appended, when nothing is left.
absl::StatusOr<bool> AppendCutTransaction(std::string_view transaction, RunFilter& filter,
                                          std::string* out);

// What the filter leaves of a stretch of the tail.
struct CutTail {
  // `transactions` fields of v1::Batch.
  std::string batch;
  uint64_t transactions = 0;
  // Schemas that the batch may use.
  std::vector<uint64_t> schema_ids;
};
absl::StatusOr<CutTail> CutSpans(const std::vector<TailSpan>& spans, RunFilter& filter);

}  // namespace tidemark
