// Where the ingest loop of one feed meets its readers: the head, and a ring of the newest
// transactions, each encoded once.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/position.h"
#include "server/tail_chunk.h"
#include "store/feed_store.h"

namespace tidemark {

// A reader that has everything and waits for more.
class TailWaiter {
 public:
  virtual ~TailWaiter() = default;
  // Called once per Wait, by the thread that publishes: must return at once.
  virtual void OnNews() = 0;
};

// What a reader does not go beyond.
struct TailLimit {
  // Transactions behind it are not taken; nullopt: all are.
  std::optional<Position> position;
  // Nor is the first one that was committed later than this, and what comes behind it.
  int64_t commit_time_us_max = std::numeric_limits<int64_t>::max();
};

// What Take found behind a reader's position.
struct TailTaken {
  enum class Kind {
    // Nothing within the limit: the reader has everything up to `upto`.
    kCaughtUp,
    // `spans` bring the reader to `upto`.
    kSpans,
    // The next transaction is to be read from the store; `upto` is its position.
    kInStore,
    // The ring no longer reaches back to the reader: it pages through the store.
    kBehind,
    // The next transaction was committed later than the limit's time; it stands at `upto`.
    kTooLate,
  };
  Kind kind = Kind::kBehind;
  std::vector<TailSpan> spans;
  Position upto;
  // Every transaction at or before it was visible when this was taken.
  Position proved;
};

// Thread rule: Start, Prepare and Publish belong to the thread of the ingest loop; the rest is safe
// from any thread. Nothing here waits. Holds no queue per reader: a reader is a position, and the
// ring is bounded in bytes whoever reads.
class TailHub {
 public:
  // Makes the cursor of a boundary.
  using CursorOf = std::function<std::string(const Position&)>;

  explicit TailHub(CursorOf cursor_of, size_t ring_bytes_max);

  // Before the feed is served: what is visible in the store, and how far it is proved.
  void Start(const Position& head, const Position& proved);
  void Start(const Position& head) { Start(head, head); }

  // Encodes what is about to be appended, if a reader is near the head. Call it before the batch is
  // moved into the store, and Publish once it is there (or drop the result when that failed).
  std::vector<std::shared_ptr<const TailChunk>> Prepare(const store::AppendBatch& batch) const;
  // Everything up to `head` is visible in the store; `prepared` is all of it that is new. `proved`
  // lies behind the head where it is known that no transaction lies between the two: a source that
  // was stopped at a bound.
  void Publish(std::vector<std::shared_ptr<const TailChunk>> prepared, const Position& head,
               const Position& proved);
  void Publish(std::vector<std::shared_ptr<const TailChunk>> prepared, const Position& head) {
    Publish(std::move(prepared), head, head);
  }

  Position head() const;
  // Every transaction at or before it is visible, and there will be no other. At or behind the
  // head.
  Position proved() const;

  // A reader that reached the head follows: from its first follower on, the hub encodes. Balanced
  // by Unfollow, when the reader falls behind or ends.
  void Follow();
  void Unfollow();
  // What comes behind `after`, up to `bytes_max` (but at least one transaction).
  TailTaken Take(const Position& after, size_t bytes_max, const TailLimit& limit = {}) const;
  // Calls waiter->OnNews() once when transactions behind `after` are published, or `proof` is
  // proved, however often it waits. False, and no call, when that is so already.
  bool Wait(const Position& after, std::shared_ptr<TailWaiter> waiter,
            const std::optional<Position>& proof = std::nullopt);

  // Takes the waiter back, so that the hub does not keep an ended reader alive.
  void StopWaiting(const TailWaiter* waiter);

  size_t ring_bytes() const;

 private:
  struct Waiting {
    std::shared_ptr<TailWaiter> waiter;
    Position after;
    std::optional<Position> proof;
  };

  void Add(std::vector<std::shared_ptr<const TailChunk>> prepared);
  void Shrink();

  const CursorOf cursor_of_;
  const size_t ring_bytes_max_;

  mutable std::mutex mutex_;
  Position head_;
  Position proved_;
  // The ring holds every transaction in (ring_begin_, head_].
  Position ring_begin_;
  std::deque<std::shared_ptr<const TailChunk>> ring_;
  size_t ring_bytes_ = 0;
  // Newest transaction that was published.
  Position newest_;
  size_t followers_ = 0;
  std::unordered_map<const TailWaiter*, Waiting> waiters_;
};

}  // namespace tidemark
