#include "store/store.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <map>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "rocksdb/env.h"
#include "store/database.h"
#include "store/feed_removal.h"
#include "store/rows_writer.h"
#include "store/spool.h"
#include "store/stored_feed.h"

namespace tidemark::store {
namespace {

constexpr int kIdentityBytes = 8;

class RocksStore final : public Store {
 public:
  RocksStore(const StoreOptions& options, std::unique_ptr<Database> database)
      : options_(options), database_(std::move(database)) {}

  absl::StatusOr<FeedStore*> OpenFeed(std::string_view name, std::string_view engine) override;
  absl::StatusOr<std::vector<std::string>> FeedNames() override;
  absl::StatusOr<FeedStore*> FindFeed(std::string_view name) override;
  absl::StatusOr<std::map<std::string, v1::DropRecord>> Drops() override {
    return NotedDrops(*database_);
  }
  absl::Status ForgetDrop(std::string_view name) override {
    return store::ForgetDrop(database_.get(), name);
  }
  uint64_t DiskBytes() const override;

  absl::Status RemoveLeftovers();

 private:
  absl::StatusOr<std::map<std::string, FeedId>> Feeds() const;
  absl::StatusOr<FeedId> MakeFeed(std::string_view name, std::string_view engine);
  // What an earlier feed of that name may have left at its source is the new one's.
  absl::Status StageLeft(std::string_view name, std::string_view engine, FeedId feed,
                         rocksdb::WriteBatch* batch) const;
  absl::StatusOr<StoredFeed*> OpenById(FeedId feed);

  const StoreOptions options_;
  const std::unique_ptr<Database> database_;
  std::mutex mutex_;
  std::map<FeedId, std::unique_ptr<StoredFeed>> open_;  // protected by mutex_
};

absl::StatusOr<std::map<std::string, FeedId>> RocksStore::Feeds() const {
  std::map<std::string, FeedId> feeds;
  const std::unique_ptr<rocksdb::Iterator> at(
      database_->rocks()->NewIterator(rocksdb::ReadOptions(), database_->meta()));
  const std::string prefix = FeedNameKey("");
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    if (at->value().size() != 4) return database_->Damaged("the id of a feed is unreadable");
    feeds[at->key().ToString().substr(prefix.size())] = ReadBig32(at->value().data());
  }
  if (!at->status().ok()) return database_->Error(at->status(), "read the names of the feeds");
  return feeds;
}

absl::Status RocksStore::RemoveLeftovers() {
  if (absl::Status status = RowsWriter::RemoveLeftovers(database_.get()); !status.ok()) {
    return status;
  }
  if (absl::Status status = FinishDrops(database_.get()); !status.ok()) return status;
  const auto feeds = Feeds();
  if (!feeds.ok()) return feeds.status();
  for (const auto& [name, feed] : *feeds) {
    if (absl::Status status = RemoveSpoolLeftovers(database_.get(), feed); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FeedStore*> RocksStore::OpenFeed(std::string_view name, std::string_view engine) {
  std::lock_guard lock(mutex_);
  const auto feeds = Feeds();
  if (!feeds.ok()) return feeds.status();
  const auto known = feeds->find(std::string(name));
  FeedId feed = 0;
  if (known != feeds->end()) {
    feed = known->second;
  } else {
    const auto made = MakeFeed(name, engine);
    if (!made.ok()) return made.status();
    feed = *made;
  }
  const auto opened = OpenById(feed);
  if (!opened.ok()) return opened.status();
  StoredFeed* const open = *opened;
  if (open->record().engine() != engine) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kConfigInvalid,
        fmt::format("feed {} in {} was made for engine {}, and is configured for {}: positions of "
                    "the two mean different things; give the new source a feed of its own name",
                    name, options_.path, open->record().engine(), engine));
  }
  return open;
}

absl::StatusOr<StoredFeed*> RocksStore::OpenById(FeedId feed) {
  std::unique_ptr<StoredFeed>& open = open_[feed];
  if (open == nullptr) {
    auto opened = StoredFeed::Open(database_.get(), feed, options_);
    if (!opened.ok()) return opened.status();
    open = *std::move(opened);
  }
  return open.get();
}

absl::StatusOr<FeedStore*> RocksStore::FindFeed(std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto feeds = Feeds();
  if (!feeds.ok()) return feeds.status();
  const auto known = feeds->find(std::string(name));
  if (known == feeds->end()) {
    return absl::NotFoundError(
        fmt::format("the store in {} holds no feed {}", options_.path, name));
  }
  return OpenById(known->second);
}

absl::Status RocksStore::StageLeft(std::string_view name, std::string_view engine, FeedId feed,
                                   rocksdb::WriteBatch* batch) const {
  const auto drop = ReadDrop(*database_, name);
  if (!drop.ok()) return drop.status();
  if (!*drop || engine != "postgres") return absl::OkStatus();
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(Position::Of(1, uint64_t{0}).bytes()));
  checkpoint.set_snapshot_phase(v1::SNAPSHOT_PHASE_PREPARING);
  *checkpoint.mutable_postgres() = (*drop)->left();
  batch->Put(database_->meta(), CheckpointKey(feed), checkpoint.SerializeAsString());
  batch->Delete(database_->meta(), DropKey(name));
  return absl::OkStatus();
}

absl::StatusOr<FeedId> RocksStore::MakeFeed(std::string_view name, std::string_view engine) {
  if (options_.read_only) {
    return absl::NotFoundError(
        fmt::format("the store in {} holds no feed {}", options_.path, name));
  }
  const auto next = database_->ReadMeta(NextFeedIdKey());
  if (!next.ok() && !absl::IsNotFound(next.status())) return next.status();
  const FeedId feed = next.ok() ? ReadBig32(next->data()) : 1;
  unsigned char identity[kIdentityBytes];
  if (RAND_bytes(identity, kIdentityBytes) != 1) {
    return absl::InternalError("no random bytes for the identity of a feed");
  }
  v1::FeedRecord record;
  record.set_name(std::string(name));
  record.set_identity(identity, kIdentityBytes);
  record.set_generation(1);
  record.set_engine(std::string(engine));
  record.set_created_us(absl::ToUnixMicros(absl::Now()));
  rocksdb::WriteBatch batch;
  batch.Put(database_->meta(), NextFeedIdKey(), FeedPrefix(feed + 1));
  batch.Put(database_->meta(), FeedNameKey(name), FeedPrefix(feed));
  batch.Put(database_->meta(), FeedRecordKey(feed), record.SerializeAsString());
  if (absl::Status status = StageLeft(name, engine, feed, &batch); !status.ok()) return status;
  // Synced, since cursors that name the identity must never outlive it.
  if (absl::Status status = database_->Write(&batch, /*sync=*/true); !status.ok()) return status;
  return feed;
}

absl::StatusOr<std::vector<std::string>> RocksStore::FeedNames() {
  const auto feeds = Feeds();
  if (!feeds.ok()) return feeds.status();
  std::vector<std::string> names;
  for (const auto& [name, feed] : *feeds) names.push_back(name);
  return names;
}

uint64_t RocksStore::DiskBytes() const {
  std::vector<rocksdb::Env::FileAttributes> files;
  uint64_t bytes = 0;
  if (!database_->rocks()->GetEnv()->GetChildrenFileAttributes(options_.path, &files).ok())
    return 0;
  for (const auto& file : files) bytes += file.size_bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  auto database = Database::Open(options);
  if (!database.ok()) return database.status();
  auto store = std::make_unique<RocksStore>(options, *std::move(database));
  if (!options.read_only) {
    if (absl::Status status = store->RemoveLeftovers(); !status.ok()) return status;
  }
  return store;
}

}  // namespace tidemark::store
