// Folds the synced tail of a log into the rows. Owned by the feed; one call at a time.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/fold.h"
#include "store/key_format.h"

namespace tidemark::store {

// Memory of one fold. A stretch of the log that needs more is folded in several, a transaction that
// needs more is put aside in pieces and published whole.
inline constexpr size_t kFoldBytesMax = size_t{12} << 20;

class RowsFolder {
 public:
  RowsFolder(Database* database, FeedId feed, const FeedState* state, FoldLookups lookups)
      : database_(*database), feed_(feed), state_(*state), lookups_(std::move(lookups)) {}

  // Folds whole transactions from `from.folded` on, up to `from.synced` at most, and returns the
  // boundary that the rows have now.
  absl::StatusOr<Position> Fold(const FeedBoundaries& from);
  // As Fold when no table has rows: the boundary moves, nothing is read.
  absl::StatusOr<Position> PassOver(const FeedBoundaries& from);

 private:
  absl::StatusOr<RowsMarker> MarkerAt(const Position& folded) const;

  Database& database_;
  const FeedId feed_;
  const FeedState& state_;
  const FoldLookups lookups_;
};

}  // namespace tidemark::store
