// PostgresSource: where capture ends, and what proves how far it has come.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/source.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// A session with the catalog that does not answer must not hold capture up.
constexpr absl::Duration kSampleTimeout = absl::Seconds(1);

// The flush position: the insert position may never be reached by an idle server (K7). Neither
// function assigns a transaction id, so that asking writes nothing (S39). The clock comes first;
// that of a standby is the commit time of what it has replayed, since it may not have received yet
// what was committed before its own clock's time.
constexpr char kSampleSql[] =
    "SELECT (extract(epoch FROM CASE WHEN pg_is_in_recovery() THEN pg_last_xact_replay_timestamp()"
    "        ELSE clock_timestamp() END) * 1000000)::bigint,"
    " CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    "      ELSE pg_current_wal_flush_lsn() END";

absl::Status ForkError(const std::string& fork) {
  return ErrorWithReason(
      absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
      fmt::format("the source calls itself {}: a bounded read rests on what PostgreSQL's own "
                  "walsender reports of its progress, and a fork's may report a position before it "
                  "has sent what lies there, so that the end could not be proved; read without a "
                  "bound",
                  fork),
      {{"feature", "bounded reads"}, {"server", fork}});
}

}  // namespace

absl::Status PostgresSource::CheckBounded(const v1::Checkpoint& checkpoint) const {
  const std::string& fork = checkpoint.postgres().fork();
  return fork.empty() ? absl::OkStatus() : ForkError(fork);
}

absl::Status PostgresSource::CheckStopPossible() const {
  return stop_ == StopPoint() || server_.fork.empty() ? absl::OkStatus() : ForkError(server_.fork);
}

absl::Status PostgresSource::CheckStopBehind(Lsn snapshot) const {
  if (!stop_.bound || stop_.bound->engine_low() >= snapshot) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kOutOfRange, reason::kBoundBeforeSnapshot,
      fmt::format("capture is to stop at {}, but the initial snapshot cannot be older than {}: its "
                  "rows would be newer than the end. Choose a later position, or now",
                  LsnText(stop_.bound->engine_low()), LsnText(snapshot)),
      {{"bound", LsnText(stop_.bound->engine_low())}, {"snapshot", LsnText(snapshot)}});
}

absl::Status PostgresSource::CheckStopAhead(const StopPoint& point, Lsn handed_over) {
  if (!point.bound || point.bound->engine_low() >= handed_over) return absl::OkStatus();
  const std::string bound = LsnText(point.bound->engine_low());
  return ErrorWithReason(
      absl::StatusCode::kOutOfRange, reason::kBoundBeforeStart,
      fmt::format("capture is to stop at {}, but has come to {} already: what lies between is in "
                  "the log. Choose a later position, or now",
                  bound, LsnText(handed_over)),
      {{"bound", bound}, {"start", LsnText(handed_over)}});
}

absl::Status PostgresSource::StopAt(const StopPoint& point) {
  std::lock_guard lock(session_mutex_);
  const bool is_placed =
      phase_ == Phase::kStreaming || (behind_gap_ && phase_ == Phase::kStartStreaming);
  if (is_placed) {
    if (point != StopPoint() && !server_.fork.empty()) return ForkError(server_.fork);
    if (absl::Status ahead = CheckStopAhead(point, checkpoint_); !ahead.ok()) return ahead;
  }
  StopPoint before = std::exchange(stop_, point);
  // Behind a break, where capture goes on is known when the slot is made.
  if (phase_ != Phase::kClosed && phase_ != Phase::kStreaming && !behind_gap_) {
    // Until the slot is there, its consistent point is not known, but what it cannot be before.
    const Lsn snapshot = std::max(consistent_, server_.flush_lsn);
    if (absl::Status behind = CheckStopBehind(snapshot); !behind.ok()) {
      stop_ = std::move(before);
      return behind;
    }
  }
  stop_changed_ = true;
  return absl::OkStatus();
}

void PostgresSource::ApplyStop(std::vector<SourceEvent>* events) {
  if (!stop_changed_) return;
  stop_changed_ = false;
  std::optional<Lsn> bound;
  if (stop_.bound) bound = stop_.bound->engine_low();
  std::optional<int64_t> time_us;
  if (stop_.time) time_us = absl::ToUnixMicros(*stop_.time);
  streaming_->StopAt(bound, time_us, events);
}

std::optional<LogEnd> PostgresSource::SampleEnd() {
  std::lock_guard lock(session_mutex_);
  return phase_ == Phase::kStreaming ? AskForEnd() : std::nullopt;
}

std::optional<LogEnd> PostgresSource::AskForEnd() {
  const absl::Time deadline = absl::Now() + kSampleTimeout;
  // The session may have been ended while it was idle; a new one may be had.
  for (int attempt = 0; attempt < 2; ++attempt) {
    absl::StatusOr<Connection*> catalog = Catalog(deadline);
    if (!catalog.ok()) return std::nullopt;
    absl::StatusOr<ResultRows> end =
        (*catalog)->Query(kSampleSql, "asking where the log ends", deadline);
    if (!end.ok()) {
      catalog_.reset();
      continue;
    }
    const absl::StatusOr<Lsn> lsn = ParseLsn(end->empty() ? "" : end->Text(0, 1));
    if (!lsn.ok()) return std::nullopt;
    return LogEnd{Position::Of(generation_, *lsn),
                  absl::FromUnixMicros(static_cast<int64_t>(end->Number(0, 0)))};
  }
  // The stream itself tells when the server is gone.
  return std::nullopt;
}

void PostgresSource::Prove(const std::optional<Position>& upto) {
  std::lock_guard lock(session_mutex_);
  probe_.Want(upto ? std::optional(upto->engine_low()) : std::nullopt);
}

}  // namespace tidemark::capture::postgres
