// What the server knows of one running feed, and how a request finds it by name.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/source.h"
#include "proto/position.h"
#include "server/bound_desk.h"
#include "server/capture_state.h"
#include "server/feed_orders.h"
#include "server/read_wake.h"
#include "server/recovery_orders.h"
#include "server/stop_orders.h"
#include "store/cursor.h"
#include "store/feed_store.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/config.pb.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

class TailHub;  // server/tail_hub.h

// Owns the source and the hub of one feed; the store and the cursor keys are lent and outlive it.
// Thread rule: everything here is safe from any thread, and waits neither for the source nor for
// the disk, except where store() and source() say otherwise (see the thread rules of FeedStore and
// Source).
class Feed {
 public:
  struct Parts {
    v1::FeedConfig config;
    store::RetentionBounds retention;
    store::FeedStore* store = nullptr;
    const store::CursorCodec* cursors = nullptr;
    std::unique_ptr<capture::Source> source;
    std::unique_ptr<TailHub> tail;
    // Ends the streams of the feed, refuses new ones, and waits a little until they are gone. May
    // be null.
    std::function<void()> end_streams = nullptr;
  };

  explicit Feed(Parts parts);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  const std::string& name() const { return parts_.config.name(); }
  // As it was started, with every default filled in. Holds secrets: never log it.
  const v1::FeedConfig& config() const { return parts_.config; }
  // As configured now.
  store::RetentionBounds retention() const;
  void SetRetention(const store::RetentionBounds& retention);

  store::FeedStore& store() const { return *parts_.store; }
  capture::Source& source() const { return *parts_.source; }
  TailHub& tail() const { return *parts_.tail; }
  // What the ingest loop reports; it alone writes.
  CaptureState& capture() { return capture_; }
  // Brings the ingest loop back from waiting.
  ReadWake& wake() { return wake_; }
  // What bounded readers ask of capture.
  BoundDesk& bounds() { return bounds_; }
  // Where capture is to end.
  StopOrders& stop() { return stop_; }
  const StopOrders& stop() const { return stop_; }
  // What is to be done about a break that stopped capture.
  RecoveryOrders& recovery() { return recovery_; }
  const CaptureState& capture() const { return capture_; }
  // What is ordered for the feed as a whole.
  FeedOrders& orders() { return orders_; }
  const FeedOrders& orders() const { return orders_; }

  // Dropped while the server runs: nobody is to find it any more, though it is still in memory.
  bool dropped() const { return dropped_; }
  // Capture's thread.
  void SetDropped();

  std::string Cursor(const Position& boundary) const;
  // Reasons: those of CursorCodec::Decode. Says nothing of whether the boundary still resumes.
  absl::StatusOr<Position> DecodeCursor(std::string_view cursor) const;

  // What a stream that delivered everything visible is told: LIVE, SNAPSHOT or SOURCE_DOWN.
  v1::FeedState StateWhenCaughtUp() const;
  // The whole status but `streams`, which the stream registry knows.
  v1::FeedStatus Status() const;
  // Both forms of a position; without a commit time.
  v1::PositionStatus Describe(const Position& position) const;

 private:
  Parts parts_;
  mutable std::mutex retention_mutex_;
  CaptureState capture_;
  ReadWake wake_;
  BoundDesk bounds_;
  StopOrders stop_;
  RecoveryOrders recovery_;
  FeedOrders orders_;
  std::atomic<bool> dropped_ = false;
};

// The feeds of a server. Immutable once the server starts; safe from any thread then.
class FeedDirectory {
 public:
  explicit FeedDirectory(std::vector<std::unique_ptr<Feed>> feeds);

  // FEED_UNKNOWN, naming the feeds that there are; of one that was dropped, saying so.
  absl::StatusOr<Feed*> Find(std::string_view name) const;
  // Those that were dropped are among them.
  const std::vector<std::unique_ptr<Feed>>& feeds() const { return feeds_; }

 private:
  const std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace tidemark
