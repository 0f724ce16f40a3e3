// Folds the synced tail of a log into the rows. Owned by the feed; one call at a time.
#pragma once

#include "absl/status/statusor.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/fold.h"
#include "store/key_format.h"

namespace tidemark::store {

class RowsFolder {
 public:
  RowsFolder(Database* database, FeedId feed, FeedState* state, FoldLookups lookups)
      : database_(*database), feed_(feed), state_(*state), lookups_(std::move(lookups)) {}

  // As FeedStore::FoldOnce.
  absl::StatusOr<bool> FoldOnce();

 private:
  Database& database_;
  const FeedId feed_;
  FeedState& state_;
  const FoldLookups lookups_;
};

}  // namespace tidemark::store
