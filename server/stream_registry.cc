#include "server/stream_registry.h"

#include <algorithm>
#include <utility>

#include "proto/reason.h"

namespace tidemark {

void StreamFacts::AddSent(uint64_t bytes, uint64_t transactions) {
  const std::lock_guard lock(mutex_);
  sent_bytes_ += bytes;
  sent_transactions_ += transactions;
}

void StreamFacts::SetDelivered(const Position& delivered, v1::FeedState state) {
  const std::lock_guard lock(mutex_);
  delivered_ = delivered;
  state_ = state;
}

void StreamFacts::SetStalledSince(std::optional<absl::Time> since) {
  const std::lock_guard lock(mutex_);
  stalled_since_ = since;
}

void StreamFacts::SetKeepFrom(std::optional<Position> boundary) {
  const std::lock_guard lock(mutex_);
  keep_from_ = boundary;
}

StreamRegistry::StreamRegistry(size_t streams_max) : streams_max_(streams_max) {}

absl::StatusOr<uint64_t> StreamRegistry::Add(Opening opening, std::shared_ptr<StreamFacts> facts) {
  const std::lock_guard lock(mutex_);
  if (draining_) return draining_->why;
  if (const auto ended = ended_feeds_.find(opening.feed); ended != ended_feeds_.end()) {
    return ended->second.why;
  }
  if (streams_.size() >= streams_max_) {
    return ErrorWithReason(absl::StatusCode::kResourceExhausted, reason::kStreamsExhausted,
                           "this server serves " + std::to_string(streams_max_) +
                               " streams, and all are in use; end one, or try again later",
                           {{"streams_max", std::to_string(streams_max_)}});
  }
  const uint64_t id = next_id_++;
  streams_.emplace(id, Listed{std::move(opening), std::move(facts)});
  return id;
}

void StreamRegistry::Remove(uint64_t id) {
  const std::lock_guard lock(mutex_);
  streams_.erase(id);
  changed_.notify_all();
}

std::vector<StreamView> StreamRegistry::List(std::string_view feed) const {
  std::vector<StreamView> views;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, listed] : streams_) {
    if (!feed.empty() && listed.opening.feed != feed) continue;
    const std::lock_guard facts_lock(listed.facts->mutex_);
    const StreamFacts& facts = *listed.facts;
    views.push_back({.id = id,
                     .feed = listed.opening.feed,
                     .label = listed.opening.label,
                     .peer = listed.opening.peer,
                     .opened = listed.opening.opened,
                     .delivered = facts.delivered_,
                     .state = facts.state_,
                     .sent_bytes = facts.sent_bytes_,
                     .sent_transactions = facts.sent_transactions_,
                     .stalled_since = facts.stalled_since_});
  }
  return views;
}

size_t StreamRegistry::Count(std::string_view feed) const {
  const std::lock_guard lock(mutex_);
  return CountLocked(feed);
}

size_t StreamRegistry::CountLocked(std::string_view feed) const {
  if (feed.empty()) return streams_.size();
  return std::count_if(streams_.begin(), streams_.end(),
                       [&](const auto& stream) { return stream.second.opening.feed == feed; });
}

std::optional<Position> StreamRegistry::KeepFrom(std::string_view feed) const {
  std::optional<Position> lowest;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, listed] : streams_) {
    if (listed.opening.feed != feed) continue;
    const std::lock_guard facts_lock(listed.facts->mutex_);
    const std::optional<Position>& keep = listed.facts->keep_from_;
    if (keep && (!lowest || *keep < *lowest)) lowest = keep;
  }
  return lowest;
}

bool StreamRegistry::Close(uint64_t id, const ClosingOrder& order) {
  std::shared_ptr<ClosableStream> stream;
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(id);
    if (found == streams_.end()) return false;
    stream = found->second.opening.stream.lock();
  }
  if (stream) stream->Close(order);
  return true;
}

void StreamRegistry::Drain(const ClosingOrder& order) {
  std::vector<std::shared_ptr<ClosableStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    if (!draining_) draining_ = order;
    for (const auto& [id, listed] : streams_) {
      if (auto stream = listed.opening.stream.lock()) streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : streams) stream->Close(order);
}

void StreamRegistry::EndFeed(std::string_view feed, const ClosingOrder& order) {
  std::vector<std::shared_ptr<ClosableStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    ended_feeds_.emplace(std::string(feed), order);
    for (const auto& [id, listed] : streams_) {
      if (listed.opening.feed != feed) continue;
      if (auto stream = listed.opening.stream.lock()) streams.push_back(std::move(stream));
    }
  }
  for (const auto& stream : streams) stream->Close(order);
}

bool StreamRegistry::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_.has_value();
}

bool StreamRegistry::WaitUntilEmpty(absl::Time deadline, std::string_view feed) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, absl::ToChronoTime(deadline),
                             [&] { return CountLocked(feed) == 0; });
}

}  // namespace tidemark
