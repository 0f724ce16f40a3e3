// What the requests that read the log have in common: is the feed readable, what of it is wanted,
// does a cursor resume. Answers from memory; safe from any thread.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "server/feed.h"
#include "server/run_filter.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// REQUEST_INVALID when the message has members that this server does not know: what a newer client
// asks for is never taken for something else.
absl::Status CheckNothingUnknown(std::string_view field, const google::protobuf::Message& message);

// FEED_NOT_READY until the initial snapshot is whole; details say how far it is.
absl::Status CheckReady(const Feed& feed);

// Reasons: REQUEST_INVALID, FEATURE_UNSUPPORTED, TABLE_UNKNOWN. The feed outlives the filter.
absl::StatusOr<RunFilter> FilterOf(const Feed& feed, const v1::Filter& filter);

// The boundary that a cursor names, from which the log still reaches on. Reasons: those of
// CursorCodec::Decode and of CheckReach; the details of the latter add the cursors of floor and
// head.
absl::StatusOr<Position> ReachableBoundary(const Feed& feed, std::string_view cursor);
absl::Status CheckReachable(const Feed& feed, const Position& boundary);
// Where a reader stands that has everything at or before `boundary`: at the end of a generation,
// where the boundary lies behind that and before the beginning of the next.
Position ClipToGeneration(const store::FeedStore& store, const Position& boundary);

}  // namespace tidemark
