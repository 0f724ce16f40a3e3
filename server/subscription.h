// What one stream does next. A pure state machine: no gRPC, no store, no thread, no clock; who runs
// it reports what came of each step.
#pragma once

#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "proto/position.h"

namespace tidemark {

// Thread rule: one thread at a time.
class Subscription {
 public:
  enum class State { kOpening, kBootstrap, kCatchingUp, kLive, kClosing, kClosed };
  enum class Cause {
    // Opened was sent, and rows come first.
    kRowsFirst,
    // Opened was sent, and the log follows.
    kLogFirst,
    // The last rows, and what the log adds to them, were sent.
    kRowsComplete,
    // The log was read to its end.
    kHeadReached,
    // The ring no longer reaches back to this stream.
    kRingLeft,
    // The server ends the stream.
    kEndDecided,
    // Closing was sent.
    kClosingSent,
    // The client is gone.
    kPeerGone,
  };
  // The next record, or how to get it.
  enum class Step {
    kSendOpened,
    kReadRows,
    // The tables without rows, up to the boundary of the rows.
    kReadLogBelowRows,
    kSendRowsEnd,
    kReadLog,
    kTakeTail,
    // The bound is reached: the stream is to be closed as finished.
    kFinish,
    kSendProgress,
    kSendClosing,
    kEnd,
  };
  struct Plan {
    // The log part of the stream begins behind it.
    Position start;
    bool rows = false;
    // With rows: some tables have none, and come from the log up to `start`.
    bool log_below_rows = false;
    absl::Duration progress_period;
  };

  // Where `cause` leads from `from`; nullopt where it cannot happen.
  static std::optional<State> After(State from, Cause cause);

  explicit Subscription(const Plan& plan);

  Step Next(absl::Time now) const;
  // When Next is to be asked again, if nothing else happens.
  absl::Time progress_due() const { return last_sent_ + plan_.progress_period; }

  // What came of the steps. `sent`: a record went out.
  void OpenedSent(absl::Time now);
  void RowsRead(bool at_end, bool sent, absl::Time now);
  void LogBelowRowsRead(bool at_end, bool sent, absl::Time now);
  void RowsEndSent(absl::Time now);
  // Everything at or before `upto` is delivered. `head` is where the feed's head stood before the
  // log was read; nullopt: the end was not reached.
  void LogRead(const Position& upto, std::optional<Position> head, bool sent, absl::Time now);
  void TailTaken(const Position& upto, bool caught_up, bool sent, absl::Time now);
  // Up to `upto` the log is to be read from the store.
  void TailInStore(const Position& upto);
  void FellBehind();
  void ProgressSent(absl::Time now);

  // The stream ends once everything up to `proof` is proved and delivered.
  void SetProof(const Position& proof);
  // Every transaction that may be delivered was, and every transaction at or before `proved` was
  // visible then. What may be delivered must reach to the bound, once SetProof was called.
  void EverythingTaken(const Position& proved);
  // The next transaction is there, and not part of the stream any more.
  void EndSeen() { end_seen_ = true; }

  // The server decided the end; the first call counts.
  void Close();
  void ClosingSent();
  void PeerGone();

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed; }
  // Everything at or before it is delivered or filtered out. nullopt until a bootstrap is
  // complete: it begins again.
  std::optional<Position> boundary() const;
  bool caught_up() const { return state_ == State::kLive && caught_up_; }

 private:
  bool is_finished() const;
  // The only writer of state_.
  void ChangeState(Cause cause);
  void Sent(bool sent, absl::Time now) {
    if (sent) last_sent_ = now;
  }

  const Plan plan_;
  State state_ = State::kOpening;
  bool rows_read_ = false;
  bool log_below_read_ = false;
  bool rows_complete_ = false;
  bool end_decided_ = false;
  std::optional<Position> proof_;
  std::optional<Position> taken_;
  bool end_seen_ = false;
  Position boundary_;
  // In LIVE: what to read from the store before the ring goes on.
  Position store_until_;
  bool caught_up_ = false;
  // The client is to be told that it has everything.
  bool live_news_ = false;
  absl::Time last_sent_ = absl::InfinitePast();
};

std::string_view Name(Subscription::State state);
std::string_view Name(Subscription::Cause cause);

}  // namespace tidemark
