// What of the log a reader wants: tables and ops. Cuts runs in their wire form, without parsing a
// value.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/table_name.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/feed.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// What is left of a run.
struct CutRun {
  // The given bytes, or bytes of the filter that hold until the next call.
  std::string_view bytes;
  uint64_t changes = 0;

  bool empty() const { return bytes.empty(); }
};

// Owned by one reader and used by one thread at a time: it remembers which schemas are wanted, and,
// inside a transaction, whether the pieces of a large value belong to a wanted change.
class RunFilter {
 public:
  // NotFound, or an error of the store, when a schema cannot be looked up.
  using SchemaOf = std::function<absl::StatusOr<v1::TableSchema>(uint64_t schema_id)>;

  // Passes everything.
  RunFilter() = default;
  // REQUEST_INVALID for a name or an op that makes no sense; FEATURE_UNSUPPORTED for columns and
  // key partitions.
  static absl::StatusOr<RunFilter> Make(const v1::Filter& filter, SchemaOf schema_of);

  bool passes_everything() const { return patterns_.empty() && ops_ == kAllOps && !also_; }
  const std::vector<TablePattern>& patterns() const { return patterns_; }
  // Wants only tables of which `also` is true, too.
  void RestrictTo(std::function<bool(const v1::TableSchema&)> also);

  absl::StatusOr<bool> WantsSchema(uint64_t schema_id);
  // False when no table of the commit is wanted: its runs need not be read.
  absl::StatusOr<bool> WantsCommit(const v1::CommitRecord& record);

  // Runs of one transaction, in order. `run` is a serialized v1::Run, with first_sequence or
  // without; `part` as in EncodedRun. STORE_DAMAGED when the bytes are no run.
  absl::StatusOr<CutRun> Cut(std::string_view run, uint32_t part);

 private:
  static constexpr uint32_t kAllOps = ~uint32_t{0};
  // Of the tables of one run: where a wanted one stands in the cut run.
  static constexpr int kDropped = -1;

  absl::Status MapTables(std::string_view packed_ids);
  absl::Status CutChange(std::string_view change);

  std::vector<TablePattern> patterns_;
  uint32_t ops_ = kAllOps;
  std::function<bool(const v1::TableSchema&)> also_;
  SchemaOf schema_of_;
  std::unordered_map<uint64_t, bool> wanted_;

  bool change_kept_ = true;
  // Scratch of one Cut.
  std::vector<uint64_t> run_ids_;
  std::vector<bool> run_wanted_;
  std::vector<int> index_in_cut_;
  std::vector<uint64_t> cut_ids_;
  std::string cut_changes_;
  std::string cut_;
  uint64_t kept_ = 0;
};

}  // namespace tidemark
