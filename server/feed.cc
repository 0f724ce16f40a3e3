#include "server/feed.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/reason.h"
#include "proto/table_name.h"
#include "proto/timestamps.h"
#include "server/feed_drop.h"
#include "server/recovery.h"
#include "server/rows_policy.h"
#include "server/tail_hub.h"

namespace tidemark {

Feed::Feed(Parts parts)
    : parts_(std::move(parts)),
      wake_([this] { source().Nudge(); }),
      bounds_([this] { wake_.Wake(); }),
      stop_(parts_.config.stop_at(), parts_.store->checkpoint().stop(), [this] { wake_.Wake(); }),
      recovery_([this] { wake_.Wake(); }),
      orders_([this] { wake_.Wake(); }) {}
Feed::~Feed() = default;

store::RetentionBounds Feed::retention() const {
  std::lock_guard lock(retention_mutex_);
  return parts_.retention;
}

void Feed::SetRetention(const store::RetentionBounds& retention) {
  std::lock_guard lock(retention_mutex_);
  parts_.retention = retention;
}

void Feed::SetDropped() {
  dropped_ = true;
  if (parts_.end_streams) parts_.end_streams();
}

std::string Feed::Cursor(const Position& boundary) const {
  return parts_.cursors->Encode(store().record().identity(), boundary);
}

absl::StatusOr<Position> Feed::DecodeCursor(std::string_view cursor) const {
  return parts_.cursors->Decode(cursor, store().record().identity());
}

v1::FeedState Feed::StateWhenCaughtUp() const {
  // Nothing is missing, and nothing is to come.
  if (capture_.phase() == CapturePhase::kFinished) return v1::FEED_STATE_LIVE;
  if (capture_.phase() != CapturePhase::kRunning) return v1::FEED_STATE_SOURCE_DOWN;
  v1::FeedStatus status;
  source().FillStatus(&status);
  switch (status.source_state()) {
    case v1::SOURCE_STATE_STREAMING:
    case v1::SOURCE_STATE_FINISHED:
      return v1::FEED_STATE_LIVE;
    case v1::SOURCE_STATE_WAITING:
    case v1::SOURCE_STATE_SNAPSHOT:
      return v1::FEED_STATE_SNAPSHOT;
    default:
      return v1::FEED_STATE_SOURCE_DOWN;
  }
}

v1::PositionStatus Feed::Describe(const Position& position) const {
  v1::PositionStatus described;
  described.set_position(position.Text());
  described.set_native_position(source().NativeText(position));
  return described;
}

v1::FeedStatus Feed::Status() const {
  v1::FeedStatus status;
  // The loop overrides what the source says of itself, so it comes second.
  source().FillStatus(&status);
  capture_.Fill(&status);
  const store::FeedStore& store = this->store();
  status.set_feed(name());
  status.set_generation(store.generation());
  status.set_log_bytes(store.log_bytes());
  status.set_log_transactions(store.log_transactions());
  status.set_unfolded_bytes(store.unfolded_bytes());

  const auto set = [this](const Position& position, v1::PositionStatus* out) {
    *out = Describe(position);
    const auto commit_time_us = capture_.CommitTimeUs(position);
    if (commit_time_us)
      *out->mutable_commit_time() = ToTimestamp(absl::FromUnixMicros(*commit_time_us));
  };
  if (const v1::StopRecord stop = stop_.record(); !stop.requested().empty()) {
    v1::StopStatus* described = status.mutable_stop();
    described->set_requested(stop.requested());
    // Only when the source is closed, too.
    described->set_finished(stop.finished() && capture_.phase() == CapturePhase::kFinished);
    if (auto bound = Position::FromBytes(stop.bound()); bound.ok()) {
      *described->mutable_bound() = Describe(*bound);
    }
  }
  const v1::Checkpoint checkpoint = store.checkpoint();
  // As the store was opened, or as what the feed was moved to since.
  const bool moved = store.record().engine() == "poll" && checkpoint.has_postgres();
  status.set_engine(moved ? "postgres" : store.record().engine());
  if (auto position = Position::FromBytes(checkpoint.position()); position.ok()) {
    set(*position, status.mutable_checkpoint());
  }
  if (store.snapshot_whole()) {
    set(store.head(), status.mutable_head());
    set(store.head(), status.mutable_progress());
    set(store.floor(), status.mutable_floor());
    set(store.folded(), status.mutable_folded());
    if (const int64_t floor_us = store.floor_commit_time_us(); floor_us != 0) {
      *status.mutable_floor()->mutable_commit_time() = ToTimestamp(absl::FromUnixMicros(floor_us));
    }
  }
  for (const v1::LostTable& lost : store.LostTables()) {
    if (!WantsRows(config(), lost.schema_name(), lost.table_name())) continue;
    v1::TableProblem* problem = status.add_table_problems();
    problem->set_table(TableNameText(lost.schema_name(), lost.table_name()));
    problem->set_reason(lost.reason());
    problem->set_message(lost.message());
    if (auto since = Position::FromBytes(lost.position()); since.ok()) {
      set(*since, problem->mutable_since());
    }
  }
  status.set_recovery(RecoveryPolicyOf(config().recovery()));
  if (const auto gaps = store.Gaps(); !gaps.empty()) {
    status.set_gaps(static_cast<uint32_t>(gaps.size()));
    v1::GapStatus* last = status.mutable_last_gap();
    last->set_reason(gaps.back().record.reason());
    last->set_detail(gaps.back().record.detail());
    last->set_policy(gaps.back().record.policy());
    *last->mutable_at() = ToTimestamp(absl::FromUnixMicros(gaps.back().record.time_us()));
    set(gaps.back().from, last->mutable_from());
    set(gaps.back().to, last->mutable_to());
  }
  if (const absl::Status fold = store.fold_status(); !fold.ok()) {
    const std::string message = absl::StrCat("rows fall behind: ", fold.message());
    if (!status.has_last_error()) {
      status.mutable_last_error()->set_reason(ReasonOf(fold));
      status.mutable_last_error()->set_message(message);
    } else {
      // It stands beside what else is wrong.
      absl::StrAppend(status.mutable_detail(), status.detail().empty() ? "" : "; ", message);
    }
  }
  return status;
}

FeedDirectory::FeedDirectory(std::vector<std::unique_ptr<Feed>> feeds) : feeds_(std::move(feeds)) {}

absl::StatusOr<Feed*> FeedDirectory::Find(std::string_view name) const {
  for (const auto& feed : feeds_) {
    if (feed->name() != name) continue;
    if (feed->dropped()) return DroppedFeedUnknown(feed->name());
    return feed.get();
  }
  std::vector<std::string> names;
  for (const auto& feed : feeds_) {
    if (!feed->dropped()) names.push_back(feed->name());
  }
  const std::string known = absl::StrJoin(names, ", ");
  return ErrorWithReason(
      absl::StatusCode::kNotFound, reason::kFeedUnknown,
      absl::StrCat("this server has no feed \"", std::string(name), "\"; it has: ", known),
      {{"feed", std::string(name)}, {"feeds", known}});
}

}  // namespace tidemark
