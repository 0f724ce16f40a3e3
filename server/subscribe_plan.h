// Checks a Subscribe request, and finds where its stream begins.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/position.h"
#include "server/feed.h"
#include "server/run_filter.h"
#include "server/stream_registry.h"
#include "store/rows_reader.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

struct SubscribePlan {
  Feed* feed = nullptr;
  v1::Start start;
  v1::Until until;
  RunFilter filter;
  size_t message_bytes_max = 0;
  absl::Duration progress_period;
};

// Where the stream begins.
struct StreamStart {
  // The log part begins behind it.
  Position boundary;
  // The current rows at `boundary`; null: the stream is of the log alone.
  std::unique_ptr<store::RowsReader> rows;
  // With rows: the tables without rows come from the log, from here to `boundary`.
  std::optional<Position> log_below_rows_from;
  // Rows that are older than the log are not part of the stream, though the feed has some.
  bool rows_before_log = false;
};

// From memory. Whatever is wrong with the request itself is found before the feed is looked at.
// Reasons: REQUEST_INVALID, FEATURE_UNSUPPORTED, FEED_UNKNOWN, FEED_NOT_READY, TABLE_UNKNOWN.
absl::StatusOr<SubscribePlan> CheckSubscribe(const FeedDirectory& feeds,
                                             const v1::SubscribeRequest& request);

// Reads the store. Holds the log in place through `facts` where the stream needs that. Reasons:
// those of a cursor (ReachableBoundary), SNAPSHOT_UNAVAILABLE, and errors of the store.
absl::StatusOr<StreamStart> FindStart(SubscribePlan& plan, StreamFacts& facts);

}  // namespace tidemark
