// What is said of a feed that is dropped, or is not. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tidemark {

// FEED_DROPPED: the end of its streams.
absl::Status FeedDropped(const std::string& feed);
// FEED_UNKNOWN: for whoever asks for it behind that.
absl::Status DroppedFeedUnknown(const std::string& feed);
// The source did not let it be dropped; `why` says why, with its reason. `owned` is what is there.
absl::Status DropRefusedBy(const absl::Status& why, const std::string& feed,
                           const std::vector<std::string>& owned);
// DROP_REFUSED: the configuration does not say where its source is.
absl::Status DropWithoutSource(const std::string& feed, const std::vector<std::string>& owned);

}  // namespace tidemark
