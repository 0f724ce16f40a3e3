#include "server/stream_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/page_token.h"
#include "server/reader_request.h"
#include "server/request_error.h"

namespace tidemark {

absl::Status CheckUntil(const v1::Until& until) {
  if (auto status = CheckNothingUnknown("until", until); !status.ok()) return status;
  if (until.has_time() && (until.time().nanos() < 0 || until.time().nanos() > 999'999'999)) {
    return InvalidRequest("until.time", "its nanos are out of range");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StreamBound>> StreamBound::Open(Feed& feed, const v1::Until& until,
                                                               Reader reader) {
  std::unique_ptr<StreamBound> bound(new StreamBound(feed, std::move(reader)));
  if (auto status = bound->Set(until); !status.ok()) return status;
  return bound;
}

absl::Status StreamBound::Set(const v1::Until& until) {
  bounded_ = until.kind_case() != v1::Until::KIND_NOT_SET && !until.has_none();
  if (!bounded_) return absl::OkStatus();
  if (auto status = feed_.source().CheckBounded(feed_.store().checkpoint()); !status.ok()) {
    return status;
  }
  switch (until.kind_case()) {
    case v1::Until::kCursor:
      return SetCursor(until.cursor());
    case v1::Until::kNativePosition:
      return SetNative(until.native_position());
    case v1::Until::kTime:
      return SetTime(FromTimestamp(until.time()));
    default:
      Ask(absl::InfinitePast());
      return absl::OkStatus();
  }
}

absl::Status StreamBound::SetCursor(const std::string& cursor) {
  by_cursor_ = true;
  const auto boundary = ReachableBoundary(feed_, cursor);
  if (!boundary.ok()) return boundary.status();
  Know({*boundary, *boundary});
  return CheckStart();
}

absl::Status StreamBound::SetNative(const std::string& text) {
  const auto position = feed_.source().ParseNative(text, feed_.store().generation());
  if (!position.ok()) {
    const absl::string_view why = position.status().message();
    return InvalidRequest("until.native_position", {why.data(), why.size()});
  }
  Know({position->AfterAllOrdinals(), position->WithOrdinal(0)});
  return CheckStart();
}

absl::Status StreamBound::SetTime(absl::Time time) {
  limit_.commit_time_us_max = absl::ToUnixMicros(time);
  const store::FeedStore& store = feed_.store();
  int64_t start_us = std::max(store.floor_commit_time_us(), store.checkpoint().snapshot_time_us());
  const auto record = store.RecordAtOrBefore(reader_.start);
  if (!record.ok()) return record.status();
  if (*record) start_us = (*record)->second.commit_time_us();
  if (start_us > limit_.commit_time_us_max) {
    return BeforeStart(absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone()));
  }
  Ask(time);
  return absl::OkStatus();
}

void StreamBound::Ask(absl::Time after) {
  limit_.position = reader_.start;
  end_ = feed_.bounds().AskForEnd(after, reader_.on_news);
}

void StreamBound::Know(const ReadBound& bound) {
  known_ = bound;
  limit_.position = bound.until;
  proof_ = feed_.bounds().Prove(bound.proof);
}

bool StreamBound::Update() {
  if (known_ || end_ == nullptr) return false;
  // In this order: what was visible before the source was asked was durable there before.
  const Position head = feed_.tail().head();
  const std::optional<Position> end = feed_.bounds().EndOf(*end_);
  if (!end) {
    limit_.position = std::max(*limit_.position, head);
    return false;
  }
  Know({end->AfterAllOrdinals(), end->WithOrdinal(0)});
  return true;
}

void StreamBound::TooLateAt(const Position& position) {
  const Position before = BoundaryBefore(position);
  known_ = ReadBound{before, before};
}

absl::Status StreamBound::CheckStart() const {
  if (reader_.start <= known_->until) return absl::OkStatus();
  return BeforeStart(feed_.source().NativeText(known_->until));
}

absl::Status StreamBound::BeforeStart(const std::string& bound) const {
  const std::string start = feed_.source().NativeText(reader_.start);
  const ErrorDetails details = {{"feed", feed_.name()}, {"start", start}, {"bound", bound}};
  if (reader_.with_rows) {
    return ErrorWithReason(
        absl::StatusCode::kOutOfRange, reason::kBoundBeforeSnapshot,
        fmt::format("the current rows of feed {} are those of {}, which is behind the bound {}: "
                    "they would be newer than the end; choose a later bound, or start at earliest",
                    feed_.name(), start, bound),
        details);
  }
  return ErrorWithReason(
      absl::StatusCode::kOutOfRange, reason::kBoundBeforeStart,
      fmt::format("the bound {} of feed {} lies before the start {}: choose a later bound or an "
                  "earlier start",
                  bound, feed_.name(), start),
      details);
}

Position StreamBound::ProvedHere(const Position& proved) const {
  if (!known_ || proved <= known_->proof) return proved;
  const Position here = ClipToGeneration(feed_.store(), known_->proof);
  if (here != known_->proof) return here;
  const auto end = feed_.store().EndOfGeneration(here.generation());
  return std::min(proved, end.value_or(proved));
}

absl::Status StreamBound::CheckProvable() const {
  if (!known_) return absl::OkStatus();
  const Position end = ClipToGeneration(feed_.store(), known_->proof);
  if (end == known_->proof) return absl::OkStatus();
  const std::string bound = feed_.source().NativeText(known_->until);
  const std::string last = feed_.source().NativeText(end);
  return ErrorWithReason(
      absl::StatusCode::kDataLoss, reason::kBoundUnreachable,
      fmt::format("feed {} was captured up to {} when its source's log broke off (GetStatus says "
                  "why), and changes before the bound {} may be missing: everything up to there "
                  "was delivered. Read on from the cursor, behind the gap, up to another bound",
                  feed_.name(), last, bound),
      {{"feed", feed_.name()}, {"bound", bound}, {"end", last}});
}

v1::Bound StreamBound::Describe() const {
  v1::Bound described;
  described.set_position(known_->until.Text());
  if (!by_cursor_) described.set_native_position(feed_.source().NativeText(known_->until));
  return described;
}

}  // namespace tidemark
