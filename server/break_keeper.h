// Carries out what is to be done where the source's log does not go on behind what is stored: as
// the configuration says, or as a person orders. A break is noted in the store, with what is to be
// done, before the source is opened again to do it, so that a crash changes nothing.
#pragma once

#include "absl/status/status.h"
#include "server/event_log.h"
#include "server/feed.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// Thread rule: belongs to the thread of the ingest loop. Feed and log are lent.
class BreakKeeper {
 public:
  BreakKeeper(Feed& feed, EventLog& log) : feed_(feed), log_(log) {}

  // What the error that ended capture comes to. OK: a break that is to be healed is noted, and the
  // source is to be opened again. Else an error: of a break, with what to do about it.
  absl::Status OnEnded(const absl::Status& error);
  // Whether capture that `error` stopped waits for an order.
  bool WaitsForOrder(const absl::Status& error) const;
  // Carries out the oldest order that came since; true when capture goes on.
  bool ServeStopped();
  // Capture goes on, or waits for something else: there is nothing to recover from.
  void RefuseOrders();

 private:
  // Of `error`, or as it was noted already.
  absl::Status Note(const absl::Status& error, v1::RecoveryPolicy policy);

  Feed& feed_;
  EventLog& log_;
  // What OnEnded was last told of.
  absl::Status last_;
};

}  // namespace tidemark
