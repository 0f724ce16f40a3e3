// The RocksDB database of a store and its column families. Safe from any thread; readers and feeds
// borrow it from the store, which outlives them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "store/key_format.h"
#include "store/store.h"

namespace tidemark::store {

class Database {
 public:
  // As Store::Open, but for the leftovers of a crash.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const StoreOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* rocks() const { return rocks_.get(); }
  rocksdb::ColumnFamilyHandle* log() const { return families_[1]; }
  rocksdb::ColumnFamilyHandle* spool() const { return families_[2]; }
  rocksdb::ColumnFamilyHandle* rows() const { return families_[3]; }
  rocksdb::ColumnFamilyHandle* schemas() const { return families_[4]; }
  rocksdb::ColumnFamilyHandle* meta() const { return families_[5]; }
  const std::string& path() const { return options_.path; }
  bool read_only() const { return options_.read_only; }

  // All or nothing. With `sync`, fsynced together with everything written before. After a failure
  // the next write or sync first moves everything in memory into new files: what a failed fsync
  // left of the WAL cannot be trusted, even if a second one succeeds.
  absl::Status Write(rocksdb::WriteBatch* batch, bool sync);
  // Everything written is fsynced.
  absl::Status SyncWal();
  // Value of a meta key; NotFound.
  absl::StatusOr<std::string> ReadMeta(std::string_view key) const;

  // Entries of [from, to) are deleted already: gives the disk space of whole files back now.
  absl::Status DropFiles(rocksdb::ColumnFamilyHandle* family, const std::string& from,
                         const std::string& to);

  absl::Status Error(const rocksdb::Status& status, std::string_view doing) const;
  absl::Status Damaged(std::string_view found) const;

 private:
  explicit Database(const StoreOptions& options) : options_(options) {}
  absl::Status GoOnAfterFailure();
  absl::Status Failed(const rocksdb::Status& status, std::string_view doing);
  absl::Status WriteFormat();

  const StoreOptions options_;
  std::unique_ptr<rocksdb::DB> rocks_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  // One batch at a time. RocksDB would merge those of two threads; with a writer per feed there is
  // little to gain from that, and the thread sanitizer cannot follow how it hands batches over.
  std::mutex write_mutex_;
  std::mutex failure_mutex_;
  rocksdb::Status failure_;  // the last one; protected by failure_mutex_
  std::atomic<bool> failed_ = false;
};

}  // namespace tidemark::store
