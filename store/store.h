// The store: one RocksDB database that holds every feed of a server. Layout: store/FORMAT.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/feed_store.h"

namespace rocksdb {
class Env;
}

namespace tidemark::store {

// A feed whose rows are this far behind its log makes capture wait.
inline constexpr uint64_t kUnfoldedTailBytesMax = uint64_t{512} << 20;

struct StoreOptions {
  std::string path;
  // Opens without writing, and without taking the lock, for inspection.
  bool read_only = false;
  // A feed's fold runs on its own thread; tests switch it off and call FeedStore::FoldOnce.
  bool fold_in_background = true;
  uint64_t unfolded_tail_bytes_max = kUnfoldedTailBytesMax;
  // Not owned; null: the process's own. Tests give one that forgets unsynced bytes.
  rocksdb::Env* env = nullptr;
};

// Thread rule: OpenFeed and the destructor from one thread, with no reader alive at destruction;
// everything else from any thread.
class Store {
 public:
  // Reasons: STORE_FORMAT_NEWER, STORE_DAMAGED, STORE_LOCKED, STORE_FULL, STORE_IO. Nothing is
  // changed when it fails. Removes what a crash left behind (large transactions without a commit
  // record, feeds that were being dropped).
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);
  virtual ~Store() = default;

  // The feed of that name, made when absent (a new random identity, generation 1). Owned by the
  // store. CONFIG_INVALID where it was made for another engine.
  virtual absl::StatusOr<FeedStore*> OpenFeed(std::string_view name, std::string_view engine) = 0;
  // Names of all feeds that the store holds, open or not.
  virtual absl::StatusOr<std::vector<std::string>> FeedNames() = 0;
  // The same of one, whatever its engine; NotFound for a name that the store does not hold.
  virtual absl::StatusOr<FeedStore*> FindFeed(std::string_view name) = 0;

  // Drops that a crash cut short, by the name of the feed: something may be left at its source. A
  // feed of that name and engine that is made takes it for its own, and ends the note.
  virtual absl::StatusOr<std::map<std::string, v1::DropRecord>> Drops() = 0;
  virtual absl::Status ForgetDrop(std::string_view name) = 0;

  virtual uint64_t DiskBytes() const = 0;
};

}  // namespace tidemark::store
