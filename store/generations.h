// The generations of one feed: which it is in, where each one ended, and the Gap records between
// them. A record without a reason only says where a generation begins: nothing is missing there (a
// feed that was polled and is captured from the log), and it is no gap to anybody. The writer's
// thread changes them with an append; looking is safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "rocksdb/write_batch.h"
#include "store/database.h"
#include "store/gap.h"
#include "store/key_format.h"

namespace tidemark::store {

class Generations {
 public:
  Generations(Database* database, FeedId feed) : database_(*database), feed_(feed) {}

  // Reads those of the feed, of which `record` says the present one.
  absl::Status Open(const v1::FeedRecord& record);

  // The next generation begins, at the checkpoint `behind`, whose kind of source the feed has from
  // then on. InvalidArgument unless `gap` leads from `head` to the first boundary of the generation
  // behind the present one.
  absl::Status Stage(const v1::GapRecord& gap, const v1::Checkpoint& behind, const Position& head,
                     rocksdb::WriteBatch* batch);
  // What was staged since is written, or was not.
  void Keep();
  void Drop();

  uint32_t current() const { return current_.load(std::memory_order_acquire); }
  // First and last boundary of a generation; nullopt for the first one, where it is not closed.
  std::optional<Position> BeginOf(uint32_t generation) const;
  std::optional<Position> EndOf(uint32_t generation) const;
  // The gaps that lie behind `after` and at or before `upto`, by their `to`, rising.
  std::vector<Gap> Between(const Position& after, const Position& upto) const;
  // All of the feed's life, rising.
  std::vector<Gap> All() const;

 private:
  Database& database_;
  const FeedId feed_;
  v1::FeedRecord record_;  // writer's thread only
  std::optional<Gap> staged_;
  std::atomic<uint32_t> current_ = 0;
  mutable std::mutex mutex_;
  std::vector<Gap> begins_;  // of every generation but the first; protected by mutex_
};

}  // namespace tidemark::store
