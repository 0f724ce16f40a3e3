#include "server/stop_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "server/limits.h"
#include "server/stop_order.h"

namespace tidemark {
namespace {

std::optional<Position> BoundOf(const v1::StopRecord& record) {
  const auto bound = Position::FromBytes(record.bound());
  return bound.ok() ? std::optional(*bound) : std::nullopt;
}

capture::StopPoint PointOf(const v1::StopRecord& record) {
  capture::StopPoint point{.bound = BoundOf(record), .time = std::nullopt};
  const auto order = ParseStopOrder(record.requested());
  if (order.ok() && order->kind == StopOrder::Kind::kTime) point.time = order->time;
  return point;
}

// An end that the source has to be asked for.
bool IsOpen(const v1::StopRecord& record) {
  return !record.requested().empty() && record.bound().empty();
}

}  // namespace

absl::Status StopKeeper::Begin() {
  const v1::StopRecord record = feed_.stop().record();
  writer_.SetStop(record);
  look_up_due_ = IsOpen(record) ? absl::InfinitePast() : absl::InfiniteFuture();
  return feed_.source().StopAt(PointOf(record));
}

absl::Status StopKeeper::Serve(bool open) {
  while (const auto order = feed_.stop().Take()) {
    const absl::Status done = CarryOut(*order, open);
    const absl::StatusOr<v1::StopRecord> answer =
        done.ok() ? absl::StatusOr<v1::StopRecord>(feed_.stop().record()) : done;
    if (order->done) order->done(answer);
    if (!done.ok() && order->by_configuration) return done;
  }
  if (!open || absl::Now() < look_up_due_) return absl::OkStatus();
  v1::StopRecord record = feed_.stop().record();
  if (auto status = LookUp(&record); !status.ok()) return status;
  return record.bound().empty() ? absl::OkStatus() : Store(record);
}

absl::Status StopKeeper::CarryOut(const StopOrders::Order& order, bool open) {
  const v1::StopRecord before = feed_.stop().record();
  auto record = Resolve(order);
  if (!record.ok()) return record.status();
  // Capture stands where it is to end.
  const bool stays =
      before.finished() && !record->bound().empty() && record->bound() == before.bound();
  record->set_finished(stays);
  if (auto status = feed_.source().StopAt(PointOf(*record)); !status.ok()) return status;
  look_up_due_ = IsOpen(*record) ? absl::InfinitePast() : absl::InfiniteFuture();
  absl::Status status;
  if (open && IsOpen(*record)) status = LookUp(&*record);
  if (status.ok()) status = Store(*record);
  if (!status.ok()) feed_.source().StopAt(PointOf(before)).IgnoreError();
  return status;
}

absl::StatusOr<v1::StopRecord> StopKeeper::Resolve(const StopOrders::Order& order) const {
  const auto parsed = ParseStopOrder(order.requested);
  if (!parsed.ok()) return parsed.status();
  v1::StopRecord record;
  record.set_configured(order.by_configuration ? order.requested
                                               : feed_.stop().record().configured());
  if (parsed->kind == StopOrder::Kind::kNever) return record;
  record.set_requested(order.requested);
  if (auto status = feed_.source().CheckBounded(feed_.store().checkpoint()); !status.ok()) {
    return status;
  }
  if (parsed->kind != StopOrder::Kind::kNative) return record;
  const uint32_t generation = feed_.store().generation();
  const absl::StatusOr<Position> bound =
      order.bound ? *order.bound : feed_.source().ParseNative(parsed->native, generation);
  if (!bound.ok()) return bound.status();
  record.set_bound(std::string(bound->WithOrdinal(0).bytes()));
  const Position reached = feed_.tail().proved();
  const bool is_passed =
      feed_.store().snapshot_whole() && bound->WithOrdinal(0) < reached.WithOrdinal(0);
  // Capture goes on in a later generation: it never comes there again.
  if (is_passed || bound->generation() < generation) {
    return ErrorWithReason(
        absl::StatusCode::kOutOfRange, reason::kBoundBeforeStart,
        fmt::format("feed {} is to stop at {}, but its log has come to {} already; choose a later "
                    "position, or now",
                    feed_.name(), parsed->native, feed_.source().NativeText(reached)),
        {{"feed", feed_.name()},
         {"bound", parsed->native},
         {"start", feed_.source().NativeText(reached)}});
  }
  return record;
}

absl::Status StopKeeper::LookUp(v1::StopRecord* record) {
  constexpr absl::Duration kAgain = absl::Milliseconds(limits::end_sample_retry_ms);
  constexpr absl::Duration kShortest = absl::Milliseconds(limits::end_sample_wait_min_ms);
  constexpr absl::Duration kLongest = absl::Milliseconds(limits::end_sample_wait_max_ms);
  const auto order = ParseStopOrder(record->requested());
  if (!order.ok()) return order.status();
  const absl::Time now = absl::Now();
  const std::optional<capture::LogEnd> end = feed_.source().SampleEnd();
  if (!end) {
    look_up_due_ = now + kAgain;
    return absl::OkStatus();
  }
  if (end->clock <= order->time) {
    look_up_due_ = now + std::clamp(order->time - end->clock, kShortest, kLongest);
    return absl::OkStatus();
  }
  look_up_due_ = absl::InfiniteFuture();
  if (end->checkpoint) {
    // With the end that held until now: this one is not set yet.
    if (auto status = Append(*end->checkpoint, feed_.stop().record()); !status.ok()) return status;
  }
  record->set_bound(std::string(end->position.WithOrdinal(0).bytes()));
  return feed_.source().StopAt(PointOf(*record));
}

absl::Status StopKeeper::Append(v1::Checkpoint checkpoint, const v1::StopRecord& record) {
  store::AppendBatch batch;
  batch.checkpoint = std::move(checkpoint);
  *batch.checkpoint->mutable_stop() = record;
  if (auto status = feed_.store().Append(batch); !status.ok()) return status;
  return feed_.store().Sync();
}

absl::Status StopKeeper::Store(const v1::StopRecord& record) {
  if (auto status = Append(feed_.store().checkpoint(), record); !status.ok()) return status;
  writer_.SetStop(record);
  feed_.stop().Set(record);
  return absl::OkStatus();
}

}  // namespace tidemark
