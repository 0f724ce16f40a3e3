#include "server/tail_hub.h"

#include <algorithm>
#include <utility>

#include "server/limits.h"
#include "server/stream_message.h"
#include "server/transaction_writer.h"

namespace tidemark {
namespace {

using ChunkPtr = std::shared_ptr<const TailChunk>;

// Collects transactions in order into chunks of about one message.
class ChunkBuilder {
 public:
  explicit ChunkBuilder(const TailHub::CursorOf& cursor_of) : cursor_of_(cursor_of) {}

  void AddEncoded(const EncodedTransaction& transaction) {
    // A commit without changes is not sent.
    if (transaction.runs.empty()) return;
    const size_t runs_bytes = transaction.record.bytes();
    if (runs_bytes > limits::message_bytes_target) {
      AddInStore(transaction.position);
      return;
    }
    if (bytes_.size() + runs_bytes > limits::batch_bytes_target) Close();
    AppendTransaction(&bytes_, transaction, cursor_of_(transaction.position));
    open_.entries.push_back(
        {transaction.position, transaction.record.commit_time_us(), bytes_.size()});
    for (const uint64_t id : transaction.record.schema_ids()) {
      if (std::find(open_.schema_ids.begin(), open_.schema_ids.end(), id) ==
          open_.schema_ids.end()) {
        open_.schema_ids.push_back(id);
      }
    }
  }

  void AddInStore(const Position& position) {
    Close();
    open_.entries.push_back({position, 0, 0});
    Close();
  }

  std::vector<ChunkPtr> Finish() {
    Close();
    return std::move(chunks_);
  }

 private:
  void Close() {
    if (open_.entries.empty()) return;
    if (!bytes_.empty()) open_.bytes = OwnedSlice(std::move(bytes_));
    bytes_.clear();
    chunks_.push_back(std::make_shared<const TailChunk>(std::move(open_)));
    open_ = TailChunk();
  }

  const TailHub::CursorOf& cursor_of_;
  std::string bytes_;
  TailChunk open_;
  std::vector<ChunkPtr> chunks_;
};

const Position& LastOf(const ChunkPtr& chunk) { return chunk->entries.back().position; }

bool IsBehind(const TailLimit& limit, const Position& position) {
  return limit.position && position > *limit.position;
}

}  // namespace

TailHub::TailHub(CursorOf cursor_of, size_t ring_bytes_max)
    : cursor_of_(std::move(cursor_of)), ring_bytes_max_(ring_bytes_max) {}

void TailHub::Start(const Position& head, const Position& proved) {
  const std::lock_guard lock(mutex_);
  head_ = ring_begin_ = newest_ = head;
  proved_ = std::max(head, proved);
}

std::vector<ChunkPtr> TailHub::Prepare(const store::AppendBatch& batch) const {
  bool encode = false;
  {
    const std::lock_guard lock(mutex_);
    encode = followers_ > 0;
  }
  ChunkBuilder builder(cursor_of_);
  if (batch.gap) {
    // Where the next generation begins, each stream reads the log for itself.
    if (const auto to = Position::FromBytes(batch.gap->to()); to.ok()) builder.AddInStore(*to);
    return builder.Finish();
  }
  if (!encode) {
    // Readers that arrive until Publish find the last transaction named, and read from the store.
    Position last;
    if (!batch.transactions.empty()) last = batch.transactions.back().position;
    if (!batch.spooled.empty()) last = std::max(last, batch.spooled.back().position);
    if (last != Position()) builder.AddInStore(last);
    return builder.Finish();
  }
  auto spooled = batch.spooled.begin();
  for (const EncodedTransaction& transaction : batch.transactions) {
    for (; spooled != batch.spooled.end() && spooled->position < transaction.position; ++spooled) {
      builder.AddInStore(spooled->position);
    }
    builder.AddEncoded(transaction);
  }
  for (; spooled != batch.spooled.end(); ++spooled) builder.AddInStore(spooled->position);
  return builder.Finish();
}

void TailHub::Publish(std::vector<ChunkPtr> prepared, const Position& head,
                      const Position& proved) {
  std::vector<std::shared_ptr<TailWaiter>> woken;
  {
    const std::lock_guard lock(mutex_);
    head_ = head;
    proved_ = std::max(head, proved);
    Add(std::move(prepared));
    for (auto waiting = waiters_.begin(); waiting != waiters_.end();) {
      const auto& [waiter, after, proof] = waiting->second;
      if (after < newest_ || (proof && *proof <= proved_)) {
        woken.push_back(waiter);
        waiting = waiters_.erase(waiting);
      } else {
        ++waiting;
      }
    }
  }
  for (const auto& waiter : woken) waiter->OnNews();
}

void TailHub::Add(std::vector<ChunkPtr> prepared) {
  if (prepared.empty()) return;
  newest_ = LastOf(prepared.back());
  if (followers_ == 0) {
    ring_begin_ = newest_;
    return;
  }
  for (ChunkPtr& chunk : prepared) {
    ring_bytes_ += chunk->cost_bytes();
    ring_.push_back(std::move(chunk));
  }
  Shrink();
}

void TailHub::Shrink() {
  while (ring_bytes_ > ring_bytes_max_ && !ring_.empty()) {
    ring_begin_ = LastOf(ring_.front());
    ring_bytes_ -= ring_.front()->cost_bytes();
    ring_.pop_front();
  }
}

Position TailHub::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

Position TailHub::proved() const {
  const std::lock_guard lock(mutex_);
  return proved_;
}

void TailHub::StopWaiting(const TailWaiter* waiter) {
  const std::lock_guard lock(mutex_);
  waiters_.erase(waiter);
}

size_t TailHub::ring_bytes() const {
  const std::lock_guard lock(mutex_);
  return ring_bytes_;
}

void TailHub::Follow() {
  const std::lock_guard lock(mutex_);
  ++followers_;
}

void TailHub::Unfollow() {
  const std::lock_guard lock(mutex_);
  if (--followers_ > 0) return;
  ring_.clear();
  ring_bytes_ = 0;
  ring_begin_ = newest_;
}

TailTaken TailHub::Take(const Position& after, size_t bytes_max, const TailLimit& limit) const {
  TailTaken taken;
  const std::lock_guard lock(mutex_);
  taken.upto = after;
  taken.proved = proved_;
  if (after < ring_begin_) return taken;  // kBehind
  auto chunk = std::upper_bound(
      ring_.begin(), ring_.end(), after,
      [](const Position& position, const ChunkPtr& c) { return position < LastOf(c); });
  const Position last_visible = limit.position ? std::min(head_, *limit.position) : head_;
  if (chunk == ring_.end() || after >= last_visible) {
    taken.kind = TailTaken::Kind::kCaughtUp;
    taken.upto = std::max(after, last_visible);
    return taken;
  }
  if ((*chunk)->in_store()) {
    taken.kind = TailTaken::Kind::kInStore;
    taken.upto = std::min(LastOf(*chunk), last_visible);
    return taken;
  }
  taken.kind = TailTaken::Kind::kSpans;
  size_t bytes = 0;
  for (; chunk != ring_.end() && !(*chunk)->in_store(); ++chunk) {
    const auto& entries = (*chunk)->entries;
    const auto first = std::upper_bound(
        entries.begin(), entries.end(), after,
        [](const Position& position, const TailChunk::Entry& e) { return position < e.position; });
    auto last = first;
    size_t begin = (*chunk)->begin_of(first - entries.begin());
    while (last != entries.end() && (bytes == 0 || bytes + last->end - begin <= bytes_max) &&
           !IsBehind(limit, last->position) && last->commit_time_us <= limit.commit_time_us_max) {
      bytes += last->end - begin;
      begin = last->end;
      ++last;
    }
    if (last == first) {
      if (bytes > 0) break;
      // The first one is not within the limit.
      const bool behind = IsBehind(limit, first->position);
      taken.kind = behind ? TailTaken::Kind::kCaughtUp : TailTaken::Kind::kTooLate;
      taken.upto = behind ? std::max(after, last_visible) : first->position;
      break;
    }
    taken.upto = std::prev(last)->position;
    taken.spans.push_back({*chunk, static_cast<size_t>(first - entries.begin()),
                           static_cast<size_t>(last - entries.begin())});
    if (last != entries.end()) break;
  }
  return taken;
}

bool TailHub::Wait(const Position& after, std::shared_ptr<TailWaiter> waiter,
                   const std::optional<Position>& proof) {
  const std::lock_guard lock(mutex_);
  if (after < newest_ || (proof && *proof <= proved_)) return false;
  const TailWaiter* const key = waiter.get();
  waiters_[key] = {std::move(waiter), after, proof};
  return true;
}

}  // namespace tidemark
