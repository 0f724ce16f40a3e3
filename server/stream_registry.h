// All open streams of the server: who reads what, how far, and how to end them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/position.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {

// Why and how a stream is ended from outside: what Closing and the final status say.
struct ClosingOrder {
  absl::Status why;
  absl::Duration retry_after = absl::ZeroDuration();
};

// What the registry needs of a stream.
class ClosableStream {
 public:
  virtual ~ClosableStream() = default;
  // Ends the stream with Closing at the next chance; returns at once. The first order counts.
  virtual void Close(const ClosingOrder& order) = 0;
};

// Facts that a stream keeps up to date while it runs. Safe from any thread.
class StreamFacts {
 public:
  void AddSent(uint64_t bytes, uint64_t transactions);
  void SetDelivered(const Position& delivered, v1::FeedState state);
  // Since when the client has not taken a message that is ready; nullopt: it keeps up.
  void SetStalledSince(std::optional<absl::Time> since);
  // Retention must not pass this boundary while the stream lives (a bootstrap needs the log from
  // there); nullopt: no such need.
  void SetKeepFrom(std::optional<Position> boundary);

 private:
  friend class StreamRegistry;
  mutable std::mutex mutex_;
  Position delivered_;
  v1::FeedState state_ = v1::FEED_STATE_UNSPECIFIED;
  std::optional<absl::Time> stalled_since_;
  std::optional<Position> keep_from_;
  uint64_t sent_bytes_ = 0;
  uint64_t sent_transactions_ = 0;
};

// A stream as ListStreams shows it.
struct StreamView {
  uint64_t id = 0;
  std::string feed;
  std::string label;
  std::string peer;
  absl::Time opened;
  Position delivered;
  v1::FeedState state = v1::FEED_STATE_UNSPECIFIED;
  uint64_t sent_bytes = 0;
  uint64_t sent_transactions = 0;
  std::optional<absl::Time> stalled_since;
};

// Thread rule: safe from any thread; no call waits, but WaitUntilEmpty.
class StreamRegistry {
 public:
  explicit StreamRegistry(size_t streams_max);

  struct Opening {
    std::string feed;
    std::string label;
    std::string peer;
    absl::Time opened;
    std::weak_ptr<ClosableStream> stream;
  };
  // Reasons: STREAMS_EXHAUSTED, SERVER_DRAINING, FEED_DROPPED. The stream is listed until Remove.
  absl::StatusOr<uint64_t> Add(Opening opening, std::shared_ptr<StreamFacts> facts);
  void Remove(uint64_t id);

  // Empty feed: all. In order of id.
  std::vector<StreamView> List(std::string_view feed) const;
  size_t Count(std::string_view feed) const;
  // The lowest boundary that an open stream of the feed still needs the log from.
  std::optional<Position> KeepFrom(std::string_view feed) const;

  // False when there is no such stream.
  bool Close(uint64_t id, const ClosingOrder& order);
  // Ends every stream and refuses new ones with the same status.
  void Drain(const ClosingOrder& order);
  bool draining() const;
  // The same for the streams of one feed, which is gone for good.
  void EndFeed(std::string_view feed, const ClosingOrder& order);
  // True when no stream is left (of the feed; empty: of any); false when `deadline` passed first.
  bool WaitUntilEmpty(absl::Time deadline, std::string_view feed = "") const;

 private:
  // Of the feed; empty: all. REQUIRES: mutex_ is held.
  size_t CountLocked(std::string_view feed) const;

  struct Listed {
    Opening opening;
    std::shared_ptr<StreamFacts> facts;
  };

  const size_t streams_max_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<uint64_t, Listed> streams_;
  uint64_t next_id_ = 1;
  std::optional<ClosingOrder> draining_;
  std::map<std::string, ClosingOrder, std::less<>> ended_feeds_;
};

}  // namespace tidemark
