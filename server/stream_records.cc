#include "server/stream_records.h"

#include <algorithm>
#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/limits.h"
#include "server/tail_hub.h"

namespace tidemark {

v1::SubscribeResponse OpenedRecord(const Feed& feed, const StreamPromise& promise) {
  v1::SubscribeResponse record;
  v1::Opened* opened = record.mutable_opened();
  opened->set_feed(feed.name());
  opened->set_start_cursor(feed.Cursor(promise.start));
  opened->set_floor_cursor(feed.Cursor(feed.store().floor()));
  opened->set_head_cursor(feed.Cursor(feed.tail().head()));
  opened->set_rows_follow(promise.rows_follow);
  opened->set_rows_before_log(promise.rows_before_log);
  opened->set_message_bytes_max(static_cast<uint32_t>(promise.message_bytes_max));
  *opened->mutable_longest_silence() =
      ToDuration(std::max(limits::longest_silence_periods * promise.progress_period,
                          absl::Milliseconds(limits::longest_silence_min_ms)));
  opened->set_server_version(promise.server_version);
  return record;
}

v1::SubscribeResponse SchemaChangeRecord(const store::SchemaTransition& step,
                                         v1::TableSchema after) {
  v1::SubscribeResponse record;
  v1::SchemaChange* change = record.mutable_schema_change();
  change->set_position(step.position.Text());
  change->set_sequence(step.sequence);
  *change->mutable_after() = std::move(after);
  change->set_before_schema_id(step.before);
  return record;
}

v1::Gap DescribeGap(const Feed& feed, const store::Gap& gap, bool resumes) {
  v1::Gap described;
  described.set_reason(gap.record.reason());
  described.set_detail(gap.record.detail());
  if (!resumes) return described;
  described.set_from_cursor(feed.Cursor(gap.from));
  described.set_to_cursor(feed.Cursor(gap.to));
  return described;
}

v1::SubscribeResponse GapNotice(const Feed& feed, const store::Gap& gap, bool resumes) {
  v1::SubscribeResponse record;
  *record.mutable_gap() = DescribeGap(feed, gap, resumes);
  return record;
}

v1::SubscribeResponse RowsEndRecord(const Feed& feed, const Position& boundary) {
  v1::SubscribeResponse record;
  record.mutable_rows()->set_last(true);
  record.mutable_rows()->set_cursor(feed.Cursor(boundary));
  return record;
}

v1::SubscribeResponse ProgressRecord(const Feed& feed, const std::optional<Position>& boundary,
                                     bool caught_up, absl::Time now) {
  const store::FeedStore& store = feed.store();
  v1::SubscribeResponse record;
  v1::Progress* progress = record.mutable_progress();
  if (boundary) {
    progress->set_cursor(feed.Cursor(*boundary));
    const uint64_t behind = store.BytesBehind(*boundary);
    const uint64_t held = store.log_bytes();
    progress->set_headroom_bytes(held > behind ? held - behind : 0);
  }
  absl::Duration lag;
  if (caught_up) {
    progress->set_state(feed.StateWhenCaughtUp());
  } else {
    progress->set_state(v1::FEED_STATE_CATCHING_UP);
    if (auto newest = store.RecordAtOrBefore(feed.tail().head()); newest.ok() && *newest) {
      lag = now - absl::FromUnixMicros((*newest)->second.commit_time_us());
    }
  }
  *progress->mutable_lag() = ToDuration(std::max(absl::ZeroDuration(), lag));
  return record;
}

v1::SubscribeResponse ClosingRecord(const Feed& feed, const std::optional<Position>& boundary,
                                    const ClosingOrder& order) {
  v1::SubscribeResponse record;
  v1::Closing* closing = record.mutable_closing();
  if (order.why.ok()) {
    closing->set_reason(std::string(reason::kFinished));
    closing->set_message("everything up to the bound was delivered");
  } else {
    closing->set_reason(ReasonOf(order.why));
    closing->set_message(std::string(order.why.message()));
  }
  if (boundary) closing->set_cursor(feed.Cursor(*boundary));
  *closing->mutable_retry_after() = ToDuration(order.retry_after);
  return record;
}

}  // namespace tidemark
