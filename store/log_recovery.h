// Finds a feed's boundaries again when its store is opened. Reads the log behind the newest sample
// only, however long the log is.
#pragma once

#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/database.h"
#include "store/feed_state.h"
#include "store/key_format.h"
#include "store/log_sample.h"

namespace tidemark::store {

struct RecoveredLog {
  FeedBoundaries boundaries;
  // Goes on behind the last transaction.
  LogSampler sampler;
};

// `checkpoint` is the position of the feed's checkpoint. REQUIRES: the feed's snapshot is whole.
absl::StatusOr<RecoveredLog> RecoverLog(const Database& database, FeedId feed,
                                        const Position& checkpoint);

// The marker of the rows.
absl::StatusOr<RowsMarker> ReadRowsMarker(const Database& database, FeedId feed);

}  // namespace tidemark::store
