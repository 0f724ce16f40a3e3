// PostgresSource: standbys that become the primary, or follow another one.
#include <fmt/format.h>

#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/source.h"

namespace tidemark::capture::postgres {

absl::Status PostgresSource::CheckGoesOn(const v1::PostgresCheckpoint& recorded,
                                         const std::optional<SlotFacts>& slot,
                                         absl::Time deadline) {
  const bool moved = recorded.timeline() != server_.timeline;
  if (moved) {
    absl::StatusOr<TimelineHistory> history =
        ReadTimelineHistory(replication_.get(), server_.timeline, deadline);
    if (!history.ok()) return history.status();
    server_.history = *std::move(history);
  }
  absl::Status goes_on = CheckResume(recorded, start_, server_, slot_name_, slot);
  if (goes_on.ok() && moved) {
    const TimelineJudgement judged =
        JudgeTimeline(recorded.timeline(), start_, server_.timeline, server_.history);
    notice_ = fmt::format(
        "a standby was promoted: the server's log left timeline {} for timeline {} at {}. What was "
        "captured, up to {}, lies before that, so nothing of it was undone, and capture goes on",
        recorded.timeline(), server_.timeline, LsnText(judged.left_at), LsnText(start_));
  }
  return goes_on;
}

// A standby that is promoted, or follows another primary, streams on, and does not say so in the
// stream. What was read of it before it is asked lies in its log as it is then.
absl::Status PostgresSource::KeepTimeline(CaptureBatch* batch) {
  if (!server_.in_recovery || !batch->checkpoint) return absl::OkStatus();
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  if (identity_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Connection>> opened =
        Connection::Open(target_, Connection::Kind::kReplication, &interruption_, deadline);
    if (!opened.ok()) return opened.status();
    identity_ = *std::move(opened);
  }
  absl::StatusOr<uint32_t> timeline = ReadTimeline(identity_.get(), deadline);
  if (!timeline.ok()) return timeline.status();
  if (*timeline == server_.timeline) return absl::OkStatus();
  absl::StatusOr<ResultRows> recovery =
      identity_->Query("SELECT pg_is_in_recovery()", "asking what the server is", deadline);
  if (!recovery.ok()) return recovery.status();
  server_.in_recovery = recovery->True(0, 0);
  batch->notice = fmt::format(
      "the server came from timeline {} to timeline {}: {}. Its own log goes on, and so does "
      "capture",
      server_.timeline, *timeline,
      server_.in_recovery ? "another one was promoted, which it follows" : "it was promoted");
  server_.timeline = *timeline;
  batch->checkpoint->mutable_postgres()->set_timeline(*timeline);
  if (!server_.in_recovery) identity_.reset();
  return absl::OkStatus();
}

absl::Status PostgresSource::CompleteBatch(CaptureBatch* batch) {
  if (!notice_.empty() && phase_ == Phase::kStreaming && batch->events.empty()) {
    if (!batch->checkpoint) batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
    batch->notice = std::exchange(notice_, {});
  }
  return KeepTimeline(batch);
}

}  // namespace tidemark::capture::postgres
