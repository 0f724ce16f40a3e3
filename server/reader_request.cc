#include "server/reader_request.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "proto/reason.h"
#include "proto/table_name.h"
#include "server/request_error.h"
#include "server/tail_hub.h"

namespace tidemark {

absl::Status CheckNothingUnknown(std::string_view field, const google::protobuf::Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return InvalidRequest(
      field, fmt::format("member {} is unknown to this server; use an older form of the request, "
                         "or a newer server",
                         unknown.field(0).number()));
}

absl::Status CheckReady(const Feed& feed) {
  if (feed.store().snapshot_whole()) return absl::OkStatus();
  const v1::FeedStatus status = feed.Status();
  const uint64_t done = status.snapshot().rows_done();
  const uint64_t estimated = status.snapshot().rows_estimated();
  ErrorDetails details = {{"feed", feed.name()},
                          {"source_state", v1::SourceState_Name(status.source_state())},
                          {"rows_done", std::to_string(done)},
                          {"rows_estimated", std::to_string(estimated)}};
  std::string why = fmt::format("{} rows are read", done);
  if (estimated > 0) why += fmt::format(" of about {}", estimated);
  if (!status.detail().empty()) why += "; " + status.detail();
  if (status.has_last_error()) {
    details["last_error"] = status.last_error().reason();
    why += fmt::format("; last error: {}: {}", status.last_error().reason(),
                       status.last_error().message());
  }
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kFeedNotReady,
      fmt::format("the initial snapshot of feed {} is not whole yet ({}); try again later",
                  feed.name(), why),
      details);
}

absl::StatusOr<RunFilter> FilterOf(const Feed& feed, const v1::Filter& filter) {
  if (auto status = CheckNothingUnknown("filter", filter); !status.ok()) return status;
  const store::FeedStore& store = feed.store();
  auto made = RunFilter::Make(filter, [&store](uint64_t id) { return store.Schema(id); });
  if (!made.ok()) return made.status();
  bool exact = false;
  for (const TablePattern& pattern : made->patterns()) exact = exact || pattern.exact();
  if (!exact) return made;
  const auto schemas = store.CurrentSchemas();
  for (const TablePattern& pattern : made->patterns()) {
    if (!pattern.exact()) continue;
    bool known = false;
    for (const v1::TableSchema& schema : schemas) {
      known = known || pattern.Matches(schema.schema_name(), schema.table_name());
    }
    if (known) continue;
    return ErrorWithReason(
        absl::StatusCode::kInvalidArgument, reason::kTableUnknown,
        fmt::format("feed {} never had a table {}; DescribeFeed lists its tables, and a pattern "
                    "with * may match nothing yet",
                    feed.name(), pattern.Text()),
        {{"feed", feed.name()}, {"table", pattern.Text()}});
  }
  return made;
}

absl::Status CheckReachable(const Feed& feed, const Position& boundary) {
  // The hub's head is what readers are given, and never ahead of the store's.
  const Position head = std::max(feed.store().head(), feed.tail().head());
  const Position floor = feed.store().floor();
  const Position end = feed.store().EndOfGeneration(boundary.generation()).value_or(head);
  const absl::Status reach = store::CheckReach(boundary, floor, head, end);
  if (reach.ok()) return reach;
  ErrorDetails details = DetailsOf(reach);
  details["feed"] = feed.name();
  details["floor_cursor"] = feed.Cursor(floor);
  details["head_cursor"] = feed.Cursor(head);
  // Where the log is right for whoever wants to go back that far by itself.
  if (ReasonOf(reach) == reason::kCursorDiverged)
    details["end_of_generation_cursor"] = feed.Cursor(end);
  if (const int64_t us = feed.store().floor_commit_time_us(); us != 0) {
    details["floor_commit_time"] =
        absl::FormatTime(absl::RFC3339_full, absl::FromUnixMicros(us), absl::UTCTimeZone());
  }
  const absl::string_view message = reach.message();
  return ErrorWithReason(reach.code(), ReasonOf(reach),
                         std::string_view(message.data(), message.size()), details);
}

Position ClipToGeneration(const store::FeedStore& store, const Position& boundary) {
  const uint32_t generation = boundary.generation();
  const auto begin = store.BeginOfGeneration(generation);
  if (begin && boundary < *begin) return store.EndOfGeneration(generation - 1).value_or(boundary);
  return std::min(boundary, store.EndOfGeneration(generation).value_or(boundary));
}

absl::StatusOr<Position> ReachableBoundary(const Feed& feed, std::string_view cursor) {
  auto boundary = feed.DecodeCursor(cursor);
  if (!boundary.ok()) return boundary;
  if (auto status = CheckReachable(feed, *boundary); !status.ok()) return status;
  return boundary;
}

}  // namespace tidemark
