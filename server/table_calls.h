// The calls of FeedAdmin that change or read again the tables of a running feed. Safe from any
// thread; nothing here waits for a source.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/table_order.h"
#include "server/feed.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// What a request asks for. REQUEST_INVALID when it does not name tables exactly. Pure.
absl::StatusOr<std::vector<capture::TableOrder>> OrdersOf(const v1::AddTableRequest& request);
absl::StatusOr<std::vector<capture::TableOrder>> OrdersOf(const v1::RemoveTableRequest& request);
absl::StatusOr<std::vector<capture::TableOrder>> OrdersOf(const v1::StartSnapshotRequest& request);

// Gives the orders to the source of the feed. Reasons: FEED_UNKNOWN, FEED_NOT_READY before the
// initial snapshot is whole, and those of Source::OrderTable.
absl::Status GiveOrders(const FeedDirectory& feeds, const std::string& feed,
                        const absl::StatusOr<std::vector<capture::TableOrder>>& orders);

}  // namespace tidemark
