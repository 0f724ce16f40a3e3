// Parts of large transactions that have not committed yet. Used by the writer's thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/encoded_transaction.h"
#include "rocksdb/write_batch.h"
#include "store/database.h"
#include "store/key_format.h"
#include "store/schema_use.h"

namespace tidemark::store {

// What is known of a transaction whose parts are in the spool.
struct SpooledParts {
  uint64_t spool_id = 0;
  // Of all runs so far.
  uint64_t bytes = 0;
  // Where in the transaction each schema is used first, and where it changes.
  SchemaUse schemas;
};

class Spool {
 public:
  Spool(Database* database, FeedId feed) : database_(*database), feed_(feed) {}

  // Reads where spool ids go on.
  absl::Status Open();

  // Writes the parts; `schemas` are already in `batch`.
  absl::Status Write(uint64_t handle, const std::vector<EncodedRun>& runs,
                     const TableOfSchema& table_of, rocksdb::WriteBatch* batch);
  // InvalidArgument for a handle that was never given.
  absl::StatusOr<const SpooledParts*> Find(uint64_t handle) const;
  // The commit is in the log: the parts belong to it now.
  void Forget(uint64_t handle) { open_.erase(handle); }
  absl::Status Abort(uint64_t handle);
  // An id for what never commits, and is gone at the next start of the store.
  absl::StatusOr<uint64_t> TakeId();
  absl::Status AbortAll();

 private:
  Database& database_;
  const FeedId feed_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, SpooledParts> open_;
};

// Parts without a commit, as a crash or an unfinished snapshot leaves them, are removed.
absl::Status RemoveSpoolLeftovers(Database* database, FeedId feed);

}  // namespace tidemark::store
