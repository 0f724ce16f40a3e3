// Carries out where capture of a feed is to end: resolves an order, writes it into the store before
// it counts, and tells the source. An end that was looked up once ("now", a time) stays what it is,
// over restarts too.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "capture/source.h"
#include "server/event_writer.h"
#include "server/feed.h"
#include "server/stop_orders.h"

namespace tidemark {

// Thread rule: belongs to the thread of the ingest loop. Feed and writer are lent.
class StopKeeper {
 public:
  StopKeeper(Feed& feed, EventWriter& writer) : feed_(feed), writer_(writer) {}

  // Before the source is opened: it is told where to end, and the writer what the store holds.
  absl::Status Begin();
  // Carries out the orders that came since, and looks an end up that is due. `open`: the source is.
  // An error ends capture: of the store, or of an order that the configuration gives.
  absl::Status Serve(bool open);
  // When to come again, if nobody wakes.
  absl::Time again() const { return look_up_due_; }

 private:
  absl::Status CarryOut(const StopOrders::Order& order, bool open);
  absl::StatusOr<v1::StopRecord> Resolve(const StopOrders::Order& order) const;
  absl::Status LookUp(v1::StopRecord* record);
  absl::Status Append(v1::Checkpoint checkpoint, const v1::StopRecord& record);
  absl::Status Store(const v1::StopRecord& record);

  Feed& feed_;
  EventWriter& writer_;
  absl::Time look_up_due_ = absl::InfiniteFuture();
};

}  // namespace tidemark
