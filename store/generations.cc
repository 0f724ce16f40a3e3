#include "store/generations.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

namespace tidemark::store {
namespace {

std::optional<Gap> Parse(v1::GapRecord record) {
  const auto from = Position::FromBytes(record.from());
  const auto to = Position::FromBytes(record.to());
  if (!from.ok() || !to.ok() || *to <= *from) return std::nullopt;
  return Gap{*from, *to, std::move(record)};
}

bool IsGap(const Gap& begin) { return !begin.record.reason().empty(); }

// As the key that configures it; empty for a checkpoint that does not say.
std::string EngineOf(const v1::Checkpoint& checkpoint) {
  switch (checkpoint.source_case()) {
    case v1::Checkpoint::kPostgres:
      return "postgres";
    case v1::Checkpoint::kPoll:
      return "poll";
    case v1::Checkpoint::kChangelog:
      return "changelog";
    default:
      return "";
  }
}

}  // namespace

absl::Status Generations::Open(const v1::FeedRecord& record) {
  record_ = record;
  const std::string prefix = GapPrefix(feed_);
  const std::unique_ptr<rocksdb::Iterator> at(
      database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.meta()));
  std::lock_guard lock(mutex_);
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    v1::GapRecord stored;
    const bool parsed =
        stored.ParseFromArray(at->value().data(), static_cast<int>(at->value().size()));
    auto gap = parsed ? Parse(std::move(stored)) : std::nullopt;
    if (!gap) return database_.Damaged("a Gap record of a feed is unreadable");
    begins_.push_back(*std::move(gap));
  }
  if (!at->status().ok()) return database_.Error(at->status(), "read the gaps of a feed");
  if (!begins_.empty() && begins_.back().to.generation() > record.generation()) {
    return database_.Damaged("a feed has a gap behind its present generation");
  }
  current_.store(record.generation(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Generations::Stage(const v1::GapRecord& gap, const v1::Checkpoint& behind,
                                const Position& head, rocksdb::WriteBatch* batch) {
  staged_ = Parse(gap);
  if (!staged_ || staged_->from != head || staged_->to.generation() != current() + 1) {
    staged_.reset();
    return absl::InvalidArgumentError("a gap leads from the head to the next generation");
  }
  v1::FeedRecord next = record_;
  next.set_generation(current() + 1);
  if (const std::string engine = EngineOf(behind); !engine.empty()) next.set_engine(engine);
  batch->Put(database_.meta(), FeedRecordKey(feed_), next.SerializeAsString());
  batch->Put(database_.meta(), GapKey(feed_, next.generation()), gap.SerializeAsString());
  return absl::OkStatus();
}

void Generations::Keep() {
  if (!staged_) return;
  const uint32_t generation = staged_->to.generation();
  record_.set_generation(generation);
  std::lock_guard lock(mutex_);
  begins_.push_back(*std::exchange(staged_, std::nullopt));
  current_.store(generation, std::memory_order_release);
}

void Generations::Drop() { staged_.reset(); }

std::optional<Position> Generations::BeginOf(uint32_t generation) const {
  std::lock_guard lock(mutex_);
  for (const Gap& gap : begins_) {
    if (gap.to.generation() == generation) return gap.to;
  }
  return std::nullopt;
}

std::optional<Position> Generations::EndOf(uint32_t generation) const {
  if (generation == current()) return std::nullopt;
  std::lock_guard lock(mutex_);
  for (const Gap& gap : begins_) {
    if (gap.from.generation() == generation) return gap.from;
  }
  return std::nullopt;
}

std::vector<Gap> Generations::Between(const Position& after, const Position& upto) const {
  std::vector<Gap> between;
  if (after.generation() == upto.generation()) return between;
  std::lock_guard lock(mutex_);
  for (const Gap& gap : begins_) {
    if (IsGap(gap) && gap.to > after && gap.to <= upto) between.push_back(gap);
  }
  return between;
}

std::vector<Gap> Generations::All() const {
  std::vector<Gap> gaps;
  std::lock_guard lock(mutex_);
  std::copy_if(begins_.begin(), begins_.end(), std::back_inserter(gaps), IsGap);
  return gaps;
}

}  // namespace tidemark::store
