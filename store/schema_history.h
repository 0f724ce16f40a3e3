// The schemas of a feed: each by its id, and from where each holds. The writer's thread stages what
// a batch adds and keeps it once the batch is written; looking is safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/encoded_transaction.h"
#include "rocksdb/write_batch.h"
#include "store/database.h"
#include "store/key_format.h"
#include "store/schema_transition.h"
#include "store/schema_use.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::store {

class SchemaHistory {
 public:
  SchemaHistory(Database* database, FeedId feed) : database_(*database), feed_(feed) {}

  // Reads all schemas of the feed.
  absl::Status Open();
  // Forgets all of them; the caller has deleted them.
  void Clear();

  // Writer's thread.

  // Schemas by content: written and known at once, since a schema that no change names is harmless.
  // InvalidArgument when an id is not that of its content.
  absl::Status Learn(const std::vector<v1::TableSchema>& schemas, rocksdb::WriteBatch* batch);
  // Tables that have no schema in force yet get the newest one learned, from `position` on.
  void StageFirst(const Position& position, rocksdb::WriteBatch* batch);
  // What a transaction changes. InvalidArgument when it names a schema that was never learned.
  absl::Status Stage(const Position& position, const std::vector<EncodedRun>& runs,
                     const v1::CommitRecord& record, rocksdb::WriteBatch* batch);
  void Stage(const Position& position, const SchemaUse& use, rocksdb::WriteBatch* batch);
  // What was staged since is in force, or was not written.
  void Keep();
  void Drop();
  TableOfSchema Tables() const;

  // Looking.

  absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const;
  // By name of the table.
  std::vector<v1::TableSchema> Current() const;
  // Of one table; nullopt when it has none.
  std::optional<v1::TableSchema> Current(std::string_view schema_name,
                                         std::string_view table_name) const;
  // Those behind `after`, at or before `upto`, in order.
  std::vector<SchemaTransition> Steps(const Position& after, const Position& upto) const;
  // Whether any schema that the feed has or had is such.
  bool Any(const std::function<bool(const v1::TableSchema&)>& such) const;

 private:
  struct Known {
    v1::TableSchema schema;
    // schema name | 0x00 | table name | 0x00
    std::string table;
  };
  // The schema in force of a table, what is staged included; 0 when it has none.
  uint64_t InForceOf(const std::string& table) const;
  bool InForce(uint64_t schema_id) const;
  void StageStep(const Position& position, uint64_t sequence, uint64_t schema_id,
                 rocksdb::WriteBatch* batch);

  Database& database_;
  const FeedId feed_;
  mutable std::mutex mutex_;
  // Protected by mutex_, changed by the writer's thread only; that one reads them without.
  absl::flat_hash_map<uint64_t, std::unique_ptr<const Known>> known_;
  absl::flat_hash_map<std::string, uint64_t> in_force_;
  // Newest learned schema of tables without one in force.
  absl::flat_hash_map<std::string, uint64_t> first_;
  // In order of (position, sequence).
  std::vector<SchemaTransition> steps_;
  // Writer's thread only.
  absl::flat_hash_map<std::string, uint64_t> staged_;
  std::vector<SchemaTransition> staged_steps_;
};

}  // namespace tidemark::store
