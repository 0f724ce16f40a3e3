// FeedAdmin.DropFeed of a feed that the store holds and the configuration does not name.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "store/store.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Waits for the disk; safe from any thread. DROP_REFUSED where something may be left at its source;
// nullopt where there is no such feed.
absl::StatusOr<std::optional<v1::DropFeedResponse>> DropStored(store::Store& store,
                                                               const v1::DropFeedRequest& request);

}  // namespace tidemark
