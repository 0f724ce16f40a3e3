// Where the ingest loop of one feed meets its readers: the head, and a ring of the newest
// transactions, each encoded once.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
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

// What Take found behind a reader's position.
struct TailTaken {
  enum class Kind {
    // Nothing: the reader has everything up to `upto`.
    kCaughtUp,
    // `spans` bring the reader to `upto`.
    kSpans,
    // The next transaction is to be read from the store; `upto` is its position.
    kInStore,
    // The ring no longer reaches back to the reader: it pages through the store.
    kBehind,
  };
  Kind kind = Kind::kBehind;
  std::vector<TailSpan> spans;
  Position upto;
};

// Thread rule: Start, Prepare and Publish belong to the thread of the ingest loop; the rest is safe
// from any thread. Nothing here waits. Holds no queue per reader: a reader is a position, and the
// ring is bounded in bytes whoever reads.
class TailHub {
 public:
  // Makes the cursor of a boundary.
  using CursorOf = std::function<std::string(const Position&)>;

  explicit TailHub(CursorOf cursor_of, size_t ring_bytes_max);

  // Before the feed is served: what is visible in the store.
  void Start(const Position& head);

  // Encodes what is about to be appended, if a reader is near the head. Call it before the batch is
  // moved into the store, and Publish once it is there (or drop the result when that failed).
  std::vector<std::shared_ptr<const TailChunk>> Prepare(const store::AppendBatch& batch) const;
  // Everything up to `head` is visible in the store; `prepared` is all of it that is new.
  void Publish(std::vector<std::shared_ptr<const TailChunk>> prepared, const Position& head);

  Position head() const;

  // A reader that reached the head follows: from its first follower on, the hub encodes. Balanced
  // by Unfollow, when the reader falls behind or ends.
  void Follow();
  void Unfollow();
  // What comes behind `after`, up to `bytes_max` (but at least one transaction).
  TailTaken Take(const Position& after, size_t bytes_max) const;
  // Calls waiter->OnNews() once when transactions behind `after` are published, however often it
  // waits. False, and no call, when there are some already.
  bool Wait(const Position& after, std::shared_ptr<TailWaiter> waiter);

  // Takes the waiter back, so that the hub does not keep an ended reader alive.
  void StopWaiting(const TailWaiter* waiter);

  size_t ring_bytes() const;

 private:
  void Shrink();

  const CursorOf cursor_of_;
  const size_t ring_bytes_max_;

  mutable std::mutex mutex_;
  Position head_;
  // The ring holds every transaction in (ring_begin_, head_].
  Position ring_begin_;
  std::deque<std::shared_ptr<const TailChunk>> ring_;
  size_t ring_bytes_ = 0;
  // Newest transaction that was published.
  Position newest_;
  size_t followers_ = 0;
  std::unordered_map<const TailWaiter*, std::shared_ptr<TailWaiter>> waiters_;
};

}  // namespace tidemark
