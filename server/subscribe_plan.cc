#include "server/subscribe_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "proto/reason.h"
#include "proto/table_name.h"
#include "proto/timestamps.h"
#include "server/limits.h"
#include "server/reader_request.h"
#include "server/request_error.h"
#include "server/stream_bound.h"
#include "server/tail_hub.h"

namespace tidemark {
namespace {

absl::Status CheckStart(const v1::Start& start) {
  if (auto status = CheckNothingUnknown("start", start); !status.ok()) return status;
  switch (start.kind_case()) {
    case v1::Start::kTime:
      return UnsupportedFeature("start.time");
    case v1::Start::kNativePosition:
      return UnsupportedFeature("start.native_position");
    case v1::Start::kSubscription:
      return UnsupportedFeature("start.subscription");
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<absl::Duration> ProgressPeriod(const v1::SubscribeRequest& request) {
  if (!request.has_progress_period()) {
    return absl::Milliseconds(limits::progress_period_default_ms);
  }
  const absl::Duration period = FromDuration(request.progress_period());
  if (period < absl::Milliseconds(limits::progress_period_min_ms) ||
      period > absl::Milliseconds(limits::progress_period_max_ms)) {
    return InvalidRequest(
        "progress_period",
        fmt::format("{} is out of range; {} ms to {} ms are taken", absl::FormatDuration(period),
                    limits::progress_period_min_ms, limits::progress_period_max_ms));
  }
  return period;
}

absl::StatusOr<size_t> MessageBytesMax(const v1::StreamLimits& wanted) {
  const size_t bytes = wanted.message_bytes_max();
  if (bytes == 0) return limits::message_bytes_max;
  if (bytes < limits::message_bytes_min) {
    return InvalidRequest("limits.message_bytes_max",
                          fmt::format("{} is too small for a single change; at least {} is taken",
                                      bytes, limits::message_bytes_min));
  }
  return std::min(bytes, limits::message_bytes_max);
}

absl::Status CheckLabel(const std::string& label) {
  if (label.size() <= limits::label_bytes_max) return absl::OkStatus();
  return InvalidRequest("label", fmt::format("{} bytes long; at most {} are taken", label.size(),
                                             limits::label_bytes_max));
}

// Selected tables of which no current rows are kept.
absl::StatusOr<std::vector<std::string>> RowlessTables(SubscribePlan& plan) {
  std::vector<std::string> names;
  const store::FeedStore& store = plan.feed->store();
  for (const v1::TableSchema& schema : store.CurrentSchemas()) {
    if (store.KeepsRows(schema)) continue;
    auto wanted = plan.filter.WantsSchema(schema.schema_id());
    if (!wanted.ok()) return wanted.status();
    if (*wanted) names.push_back(TableNameText(schema.schema_name(), schema.table_name()));
  }
  return names;
}

// Selected tables whose current rows are gone. The log does not hold what they began with.
std::vector<std::string> LostTables(SubscribePlan& plan, const std::vector<std::string>& rowless) {
  std::vector<std::string> names;
  for (const v1::LostTable& lost : plan.feed->store().LostTables()) {
    std::string name = TableNameText(lost.schema_name(), lost.table_name());
    const bool wanted = std::find(rowless.begin(), rowless.end(), name) != rowless.end();
    if (lost.had_rows() && wanted) names.push_back(std::move(name));
  }
  return names;
}

bool HasRowsBeforeLog(const store::FeedStore& store) {
  if (store.floor_commit_time_us() != 0) return true;
  const auto lost = store.LostTables();
  if (std::any_of(lost.begin(), lost.end(), [](const auto& table) { return table.had_rows(); })) {
    return true;
  }
  const auto schemas = store.CurrentSchemas();
  return std::any_of(schemas.begin(), schemas.end(),
                     [&](const v1::TableSchema& schema) { return store.KeepsRows(schema); });
}

absl::StatusOr<StreamStart> StartWithRows(SubscribePlan& plan, StreamFacts& facts) {
  const store::FeedStore& store = plan.feed->store();
  // Held before the view of the rows is taken, so that nothing is trimmed in between.
  const Position floor = store.floor();
  facts.SetKeepFrom(floor);
  auto rowless = RowlessTables(plan);
  if (!rowless.ok()) return rowless.status();
  if (!rowless->empty() && (store.floor_commit_time_us() != 0 || store.floor() != floor)) {
    const std::string tables = absl::StrJoin(*rowless, ", ");
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSnapshotUnavailable,
        fmt::format("no current rows are kept of {}, and the log no longer reaches back to the "
                    "feed's initial snapshot; leave these tables out, or start at earliest",
                    tables),
        {{"feed", plan.feed->name()}, {"tables", tables}});
  }
  StreamStart start;
  auto rows = store.NewRowsReader();
  if (!rows.ok()) return rows.status();
  start.rows = *std::move(rows);
  // Behind the view of the rows: what it misses is told by now.
  const auto rowless_now = RowlessTables(plan);
  if (!rowless_now.ok()) return rowless_now.status();
  if (const auto lost = LostTables(plan, *rowless_now); !lost.empty()) {
    const std::string tables = absl::StrJoin(lost, ", ");
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSnapshotUnavailable,
        fmt::format("the current rows of {} are gone (GetStatus says why), and the log does not "
                    "reach back to them; leave these tables out, or start at earliest",
                    tables),
        {{"feed", plan.feed->name()}, {"tables", tables}});
  }
  start.boundary = start.rows->boundary();
  if (rowless->empty()) {
    facts.SetKeepFrom(start.boundary);
  } else {
    start.log_below_rows_from = floor;
  }
  return start;
}

}  // namespace

absl::StatusOr<SubscribePlan> CheckSubscribe(const FeedDirectory& feeds,
                                             const v1::SubscribeRequest& request) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  if (auto status = CheckLabel(request.label()); !status.ok()) return status;
  if (auto status = CheckStart(request.start()); !status.ok()) return status;
  if (auto status = CheckUntil(request.until()); !status.ok()) return status;
  SubscribePlan plan;
  plan.start = request.start();
  plan.until = request.until();
  auto period = ProgressPeriod(request);
  if (!period.ok()) return period.status();
  plan.progress_period = *period;
  auto message_bytes_max = MessageBytesMax(request.limits());
  if (!message_bytes_max.ok()) return message_bytes_max.status();
  plan.message_bytes_max = *message_bytes_max;
  // What is wrong with a filter is wrong whatever the feed.
  if (auto form = RunFilter::Make(request.filter(), nullptr); !form.ok()) return form.status();
  auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return feed.status();
  plan.feed = *feed;
  if (auto status = CheckReady(**feed); !status.ok()) return status;
  auto filter = FilterOf(**feed, request.filter());
  if (!filter.ok()) return filter.status();
  plan.filter = *std::move(filter);
  return plan;
}

absl::StatusOr<StreamStart> FindStart(SubscribePlan& plan, StreamFacts& facts) {
  StreamStart start;
  switch (plan.start.kind_case()) {
    case v1::Start::kCursor: {
      auto boundary = ReachableBoundary(*plan.feed, plan.start.cursor());
      if (!boundary.ok()) return boundary.status();
      start.boundary = *boundary;
      return start;
    }
    case v1::Start::kEarliest:
      start.boundary = plan.feed->store().floor();
      start.rows_before_log = HasRowsBeforeLog(plan.feed->store());
      return start;
    case v1::Start::kLatest:
      start.boundary = plan.feed->tail().head();
      return start;
    default:
      return StartWithRows(plan, facts);
  }
}

}  // namespace tidemark
