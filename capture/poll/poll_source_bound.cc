// PollSource: where capture ends, and what proves how far it has come.
#include <fmt/format.h>

#include <charconv>

#include "absl/time/clock.h"
#include "capture/poll/poll_source.h"
#include "capture/poll_text.h"
#include "proto/reason.h"

namespace tidemark::capture {
namespace {

absl::Status NoSuchForm(std::string_view text) {
  return ErrorWithReason(
      absl::StatusCode::kInvalidArgument, reason::kRequestInvalid,
      fmt::format("'{}' is no position of a polled feed, which is written as in poll 17", text));
}

}  // namespace

absl::Status PollSource::StopAt(const StopPoint& point) {
  const bool begun = phase_ != Phase::kPreparing && phase_ != Phase::kSnapshot && done_.polls() > 0;
  if (begun && point.bound && point.bound->generation() == generation_ &&
      point.bound->engine_low() < done_.polls()) {
    return ErrorWithReason(
        absl::StatusCode::kOutOfRange, reason::kBoundBeforeStart,
        fmt::format("{} is to be the last one, and {} polls have ended; choose a later one, or now",
                    NativeText(*point.bound), done_.polls()),
        {{"feed", feed_}, {"bound", NativeText(*point.bound)}});
  }
  stop_ = point;
  if (phase_ == Phase::kFinished) {
    Enter(Phase::kWaiting, v1::SOURCE_STATE_STREAMING, "polling");
  }
  return absl::OkStatus();
}

bool PollSource::FinishIfDue(CaptureBatch* batch) {
  if (!stop_.bound || stop_.bound->engine_low() > done_.polls()) return false;
  batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
  batch->notice = std::exchange(notice_, "");
  batch->finished = stop_.bound;
  Enter(Phase::kFinished, v1::SOURCE_STATE_FINISHED,
        fmt::format("ended behind {}", NativeText(head_)));
  return true;
}

// The clock is asked for first: a poll that has not begun sees all that was committed by then.
std::optional<LogEnd> PollSource::SampleEnd() {
  const bool whole =
      phase_ == Phase::kWaiting || phase_ == Phase::kPolling || phase_ == Phase::kScanning;
  if (!whole) return std::nullopt;
  absl::StatusOr<absl::Time> clock = engine_->Clock();
  if (!clock.ok()) {
    failed_ = clock.status();
    return std::nullopt;
  }
  return LogEnd{Position::Of(generation_, schedule_.Sample(absl::Now())), *clock};
}

void PollSource::Prove(const std::optional<Position>& upto) {
  schedule_.Want(upto ? std::optional(upto->engine_low()) : std::nullopt);
}

absl::Status PollSource::CheckBounded(const v1::Checkpoint& /*checkpoint*/) const {
  return absl::OkStatus();
}

std::string PollSource::NativeText(const Position& position) const { return PollText(position); }

absl::StatusOr<Position> PollSource::ParseNative(std::string_view text, uint32_t generation) const {
  std::string_view digits = text;
  if (!digits.starts_with(kPollWord)) return NoSuchForm(text);
  digits.remove_prefix(kPollWord.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
    return NoSuchForm(text);
  }
  return Position::Of(generation, number);
}

}  // namespace tidemark::capture
