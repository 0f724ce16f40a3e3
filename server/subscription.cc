#include "server/subscription.h"

#include <algorithm>

namespace tidemark {
namespace {

using State = Subscription::State;
using Cause = Subscription::Cause;

struct Transition {
  State from;
  Cause cause;
  State to;
};

constexpr Transition kTransitions[] = {
    {State::kOpening, Cause::kRowsFirst, State::kBootstrap},
    {State::kOpening, Cause::kLogFirst, State::kCatchingUp},
    {State::kOpening, Cause::kEndDecided, State::kClosing},
    {State::kOpening, Cause::kPeerGone, State::kClosed},
    {State::kBootstrap, Cause::kRowsComplete, State::kCatchingUp},
    {State::kBootstrap, Cause::kEndDecided, State::kClosing},
    {State::kBootstrap, Cause::kPeerGone, State::kClosed},
    {State::kCatchingUp, Cause::kHeadReached, State::kLive},
    {State::kCatchingUp, Cause::kEndDecided, State::kClosing},
    {State::kCatchingUp, Cause::kPeerGone, State::kClosed},
    {State::kLive, Cause::kRingLeft, State::kCatchingUp},
    {State::kLive, Cause::kEndDecided, State::kClosing},
    {State::kLive, Cause::kPeerGone, State::kClosed},
    {State::kClosing, Cause::kClosingSent, State::kClosed},
    {State::kClosing, Cause::kPeerGone, State::kClosed},
};

}  // namespace

std::optional<State> Subscription::After(State from, Cause cause) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == from && transition.cause == cause) return transition.to;
  }
  return std::nullopt;
}

Subscription::Subscription(const Plan& plan) : plan_(plan), boundary_(plan.start) {}

void Subscription::ChangeState(Cause cause) {
  if (const auto to = After(state_, cause)) state_ = *to;
}

Subscription::Step Subscription::Next(absl::Time now) const {
  if (state_ == State::kClosed) return Step::kEnd;
  if (state_ == State::kClosing) return Step::kSendClosing;
  if (state_ == State::kOpening) return Step::kSendOpened;
  if (is_finished()) return Step::kFinish;
  if (now >= progress_due()) return Step::kSendProgress;
  switch (state_) {
    case State::kBootstrap:
      if (!rows_read_) return Step::kReadRows;
      if (plan_.log_below_rows && !log_below_read_) return Step::kReadLogBelowRows;
      return Step::kSendRowsEnd;
    case State::kCatchingUp:
      return Step::kReadLog;
    default:
      if (boundary_ < store_until_) return Step::kReadLog;
      if (caught_up_ && live_news_) return Step::kSendProgress;
      return Step::kTakeTail;
  }
}

void Subscription::OpenedSent(absl::Time now) {
  Sent(true, now);
  ChangeState(plan_.rows ? Cause::kRowsFirst : Cause::kLogFirst);
}

void Subscription::RowsRead(bool at_end, bool sent, absl::Time now) {
  rows_read_ = at_end;
  Sent(sent, now);
}

void Subscription::LogBelowRowsRead(bool at_end, bool sent, absl::Time now) {
  log_below_read_ = at_end;
  Sent(sent, now);
}

void Subscription::RowsEndSent(absl::Time now) {
  Sent(true, now);
  rows_complete_ = true;
  ChangeState(Cause::kRowsComplete);
}

void Subscription::LogRead(const Position& upto, std::optional<Position> head, bool sent,
                           absl::Time now) {
  boundary_ = std::max(boundary_, upto);
  Sent(sent, now);
  if (!head) return;
  boundary_ = std::max(boundary_, *head);
  live_news_ = live_news_ || state_ == State::kCatchingUp;
  ChangeState(Cause::kHeadReached);
}

void Subscription::TailTaken(const Position& upto, bool caught_up, bool sent, absl::Time now) {
  boundary_ = std::max(boundary_, upto);
  caught_up_ = caught_up;
  Sent(sent, now);
}

void Subscription::TailInStore(const Position& upto) {
  caught_up_ = false;
  store_until_ = upto;
}

void Subscription::FellBehind() {
  caught_up_ = false;
  ChangeState(Cause::kRingLeft);
}

void Subscription::ProgressSent(absl::Time now) {
  Sent(true, now);
  if (caught_up()) live_news_ = false;
}

void Subscription::SetProof(const Position& proof) {
  proof_ = proof;
  // What was taken so far was taken up to a nearer end.
  taken_.reset();
}

void Subscription::EverythingTaken(const Position& proved) { taken_ = proved; }

bool Subscription::is_finished() const {
  if (state_ != State::kCatchingUp && state_ != State::kLive) return false;
  if (end_seen_) return true;
  // A position of a later generation proves nothing of an earlier one.
  return proof_ && taken_ && *taken_ >= *proof_ && taken_->generation() == proof_->generation();
}

void Subscription::Close() {
  if (end_decided_) return;
  end_decided_ = true;
  ChangeState(Cause::kEndDecided);
}

void Subscription::ClosingSent() { ChangeState(Cause::kClosingSent); }

void Subscription::PeerGone() { ChangeState(Cause::kPeerGone); }

std::optional<Position> Subscription::boundary() const {
  if (plan_.rows && !rows_complete_) return std::nullopt;
  return boundary_;
}

std::string_view Name(State state) {
  switch (state) {
    case State::kOpening:
      return "OPENING";
    case State::kBootstrap:
      return "BOOTSTRAP";
    case State::kCatchingUp:
      return "CATCHING_UP";
    case State::kLive:
      return "LIVE";
    case State::kClosing:
      return "CLOSING";
    case State::kClosed:
      return "CLOSED";
  }
  return "?";
}

std::string_view Name(Cause cause) {
  switch (cause) {
    case Cause::kRowsFirst:
      return "rows first";
    case Cause::kLogFirst:
      return "log first";
    case Cause::kRowsComplete:
      return "rows complete";
    case Cause::kHeadReached:
      return "head reached";
    case Cause::kRingLeft:
      return "ring left";
    case Cause::kEndDecided:
      return "end decided";
    case Cause::kClosingSent:
      return "closing sent";
    case Cause::kPeerGone:
      return "peer gone";
  }
  return "?";
}

}  // namespace tidemark
