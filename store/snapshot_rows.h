// Rows of an initial snapshot on their way into the rows, in large sorted files. Used by the
// writer's thread alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "proto/encoded_transaction.h"
#include "store/database.h"
#include "store/fold.h"
#include "store/key_format.h"

namespace tidemark::store {

inline constexpr size_t kSnapshotRowsBytesMax = size_t{16} << 20;

class SnapshotRows {
 public:
  SnapshotRows(Database* database, FeedId feed, FoldLookups lookups)
      : database_(*database), feed_(feed), lookups_(std::move(lookups)) {}

  absl::Status Add(const std::vector<EncodedRun>& runs);
  // What was added is written when it returns, and durable at the latest with the next sync.
  absl::Status Flush();
  // Forgets what was added and removes all rows of the feed.
  absl::Status Clear();

 private:
  Database& database_;
  const FeedId feed_;
  const FoldLookups lookups_;
  std::optional<Fold> fold_;
};

}  // namespace tidemark::store
