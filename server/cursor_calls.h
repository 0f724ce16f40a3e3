// The short calls of ChangeFeed: points of a feed as cursors, what a cursor names, what a feed is.
// Each reads the store at most once; safe from any thread.
#pragma once

#include "absl/status/status.h"
#include "server/feed.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// Reasons: REQUEST_INVALID, FEATURE_UNSUPPORTED, FEED_UNKNOWN, FEED_NOT_READY.
absl::Status ResolveCursor(const FeedDirectory& feeds, const v1::ResolveCursorRequest& request,
                           v1::ResolveCursorResponse* response);

// Reasons: FEED_UNKNOWN, FEED_NOT_READY, those of CursorCodec::Decode. That a cursor no longer
// resumes is an answer, not an error.
absl::Status InspectCursor(const FeedDirectory& feeds, const v1::InspectCursorRequest& request,
                           v1::InspectCursorResponse* response);

// Reasons: FEED_UNKNOWN; FEATURE_UNSUPPORTED when the tables do not fit into one message.
absl::Status DescribeFeed(const FeedDirectory& feeds, const v1::DescribeFeedRequest& request,
                          v1::DescribeFeedResponse* response);

}  // namespace tidemark
