// ChangelogSource: where capture ends, and what a position is to people.
//
// The end of the log is where the pull that begins when it is asked for will end: how many
// transactions that pull tells is known as soon as they are listed. So the end is exact, and it is
// proved once that pull has ended. It is an end of that pull alone: one that began later would
// count transactions in that were committed since then, and leave as many others out. So the pull
// is stored before its end is told, and gone on with whatever becomes of this connection.
#include <fmt/format.h>

#include <charconv>

#include "absl/time/clock.h"
#include "capture/changelog/source.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

constexpr std::string_view kNativeWord = "transaction ";

absl::Status Unsupported(const std::string& what) {
  return ErrorWithReason(absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported, what,
                         {{"feature", "bounded reads of a changelog"}});
}

}  // namespace

absl::Status ChangelogSource::CheckBounded(const v1::Checkpoint& /*checkpoint*/) const {
  if (!settings_.ok() || settings_->strategy == Strategy::kSnapshot) return absl::OkStatus();
  return Unsupported(
      "with strategy xid_watermark, what is committed is told only when every older transaction "
      "has "
      "ended, so that a bound would wait for transactions that have nothing to do with it; use "
      "strategy snapshot, or read without a bound");
}

absl::Status ChangelogSource::CheckStopPossible(const StopPoint& point) const {
  if (point == StopPoint()) return absl::OkStatus();
  if (point.time) {
    return Unsupported(
        "a changelog does not say when its transactions were committed, so capture cannot end at a "
        "time; end it now, or at a transaction, by its number");
  }
  return CheckBounded(v1::Checkpoint());
}

absl::Status ChangelogSource::CheckStopAhead(const StopPoint& point) const {
  if (!point.bound || point.bound->engine_low() >= told_.transactions()) return absl::OkStatus();
  const std::string bound = NativeText(*point.bound);
  const std::string start = NativeText(PositionNow());
  return ErrorWithReason(
      absl::StatusCode::kOutOfRange, reason::kBoundBeforeStart,
      fmt::format("capture is to stop at {}, but has come to {} already: what lies between is in "
                  "the log. Choose a later position, or now",
                  bound, start),
      {{"bound", bound}, {"start", start}});
}

absl::Status ChangelogSource::StopAt(const StopPoint& point) {
  std::lock_guard lock(session_mutex_);
  if (absl::Status possible = CheckStopPossible(point); !possible.ok()) return possible;
  if (phase_ == Phase::kIdle || phase_ == Phase::kPulling) {
    if (absl::Status ahead = CheckStopAhead(point); !ahead.ok()) return ahead;
  }
  stop_ = point;
  finished_ = false;
  return absl::OkStatus();
}

bool ChangelogSource::at_stop() const {
  return stop_.bound && told_.transactions() >= stop_.bound->engine_low();
}

std::optional<LogEnd> ChangelogSource::SampleEnd() {
  std::lock_guard lock(session_mutex_);
  // One that is in progress began before the question.
  if (phase_ != Phase::kIdle || !told_.pulling().empty() || !CheckBounded({}).ok()) {
    return std::nullopt;
  }
  const absl::Time deadline = absl::Now() + kSampleTimeout;
  absl::Status asked = BeginPull(deadline);
  if (asked.ok()) asked = pull_->AwaitList(deadline);
  if (!asked.ok()) {
    lost_ = asked;
    return std::nullopt;
  }
  if (!pull_->total()) return std::nullopt;
  LogEnd end{Position::Of(generation_, told_.transactions() + *pull_->total()),
             absl::FromUnixMicros(told_.clock_us())};
  if (*pull_->total() > 0) {
    end.checkpoint = CheckpointNow(v1::SNAPSHOT_PHASE_WHOLE);
    NoteHandedOver();
  }
  return end;
}

void ChangelogSource::Prove(const std::optional<Position>& upto) {
  std::lock_guard lock(session_mutex_);
  if (!upto || phase_ != Phase::kIdle) return;
  pull_due_ = std::min(pull_due_, absl::Now() + kProvePeriod);
}

std::string ChangelogSource::NativeText(const Position& position) const {
  return fmt::format("{}{}", kNativeWord, position.engine_low());
}

absl::StatusOr<Position> ChangelogSource::ParseNative(std::string_view text,
                                                      uint32_t generation) const {
  std::string_view number = text;
  if (number.starts_with(kNativeWord)) number.remove_prefix(kNativeWord.size());
  uint64_t transaction = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), transaction);
  if (error == std::errc() && end == number.data() + number.size()) {
    return Position::Of(generation, transaction);
  }
  return ErrorWithReason(
      absl::StatusCode::kInvalidArgument, reason::kRequestInvalid,
      fmt::format("\"{}\" is no position of a changelog; write its number in the feed: "
                  "transaction 17",
                  text.substr(0, 64)));
}

}  // namespace tidemark::capture::changelog
