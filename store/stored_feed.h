// One feed over the store's database. Rules of use: feed_store.h.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/database.h"
#include "store/feed_state.h"
#include "store/feed_store.h"
#include "store/fold_thread.h"
#include "store/generations.h"
#include "store/log_sample.h"
#include "store/lost_rows.h"
#include "store/rows_folder.h"
#include "store/schema_history.h"
#include "store/snapshot_rows.h"
#include "store/spool.h"
#include "store/store.h"
#include "store/tail_rows.h"

namespace tidemark::store {

// How long an append waits for the fold before it is refused.
inline constexpr auto kFoldWait = std::chrono::seconds(1);

class StoredFeed final : public FeedStore {
 public:
  // Reads the boundaries of a feed that is in the database.
  static absl::StatusOr<std::unique_ptr<StoredFeed>> Open(Database* database, FeedId feed,
                                                          const StoreOptions& options);
  ~StoredFeed() override;

  absl::Status Append(const AppendBatch& batch) override;
  absl::Status SpoolParts(uint64_t handle, const std::vector<v1::TableSchema>& schemas,
                          const std::vector<EncodedRun>& runs) override;
  absl::Status AbortSpool(uint64_t handle) override { return spool_.Abort(handle); }
  absl::StatusOr<std::unique_ptr<SpoolReader>> NewSpoolReader(uint64_t handle) const override;
  absl::StatusOr<std::string> ReadSpooled(uint64_t handle, uint64_t first_sequence,
                                          uint32_t part) const override;
  absl::StatusOr<std::unique_ptr<IndexOverflow>> NewIndexOverflow() override;
  absl::Status Sync() override;
  absl::Status BeginSnapshot() override;
  absl::Status AddSnapshotRows(const std::vector<v1::TableSchema>& schemas,
                               const std::vector<EncodedRun>& runs) override;
  void SetRowsPolicy(std::function<bool(const v1::TableSchema&)> keeps_rows) override;

  const v1::FeedRecord& record() const override { return record_; }
  uint32_t generation() const override { return generations_.current(); }
  std::optional<Position> BeginOfGeneration(uint32_t generation) const override {
    return generations_.BeginOf(generation);
  }
  std::optional<Position> EndOfGeneration(uint32_t generation) const override {
    return generations_.EndOf(generation);
  }
  std::vector<Gap> GapsBetween(const Position& after, const Position& upto) const override {
    return generations_.Between(after, upto);
  }
  std::vector<Gap> Gaps() const override { return generations_.All(); }
  v1::Checkpoint checkpoint() const override;
  std::vector<v1::TableState> table_states() const override;
  bool snapshot_whole() const override { return state_.Get().snapshot_whole; }
  Position head() const override { return state_.Get().head; }
  Position synced() const override { return state_.Get().synced; }
  Position floor() const override { return state_.Get().floor; }
  Position folded() const override { return state_.Get().folded; }
  int64_t floor_commit_time_us() const override { return state_.Get().floor_commit_time_us; }
  uint64_t BytesBehind(const Position& boundary) const override;
  uint64_t log_bytes() const override;
  uint64_t unfolded_bytes() const override;
  uint64_t log_transactions() const override;

  absl::StatusOr<v1::TableSchema> Schema(uint64_t schema_id) const override {
    return schemas_.Schema(schema_id);
  }
  std::vector<v1::TableSchema> CurrentSchemas() const override { return schemas_.Current(); }
  std::vector<SchemaTransition> SchemaTransitions(const Position& after,
                                                  const Position& upto) const override {
    return schemas_.Steps(after, upto);
  }
  bool KeepsRows(const v1::TableSchema& schema) const override;
  std::vector<v1::LostTable> LostTables() const override { return lost_rows_.All(); }
  std::optional<v1::TableSchema> CurrentSchema(std::string_view schema_name,
                                               std::string_view table_name) const override {
    return schemas_.Current(schema_name, table_name);
  }

  absl::StatusOr<std::unique_ptr<LogReader>> NewLogReader(const Position& after) const override;
  absl::StatusOr<std::unique_ptr<RowsReader>> NewRowsReader() const override;
  absl::StatusOr<std::unique_ptr<RowsReader>> NewTableRowsReader(
      const v1::TableSchema& table, std::string_view from_key) const override;
  absl::StatusOr<std::optional<std::string>> FindRow(const v1::TableSchema& table,
                                                     std::string_view key) override;
  absl::StatusOr<std::optional<std::pair<Position, v1::CommitRecord>>> RecordAtOrBefore(
      const Position& boundary) const override;

  absl::Status Trim(const RetentionBounds& bounds, absl::Time now,
                    std::optional<Position> keep_from) override;
  absl::StatusOr<bool> FoldOnce() override;
  absl::Status FoldToHead() override;
  absl::Status fold_status() const override;

  absl::Status BeginDrop(const std::optional<v1::PostgresCheckpoint>& left) override;
  absl::Status CancelDrop() override;
  absl::Status Remove() override;

 private:
  // What an append changes in memory once it is written.
  struct Appended {
    Position head;
    LogSampler sampler;
    int64_t clock_us = 0;
    bool transactions = false;
  };

  using RowsPolicy = std::function<bool(const v1::TableSchema&)>;

  StoredFeed(Database* database, FeedId feed, const StoreOptions& options);
  FoldLookups Lookups();
  absl::Status Load();
  absl::Status LoadTableStates();

  absl::Status WaitForFold();
  absl::Status AppendAll(const AppendBatch& batch);
  absl::Status AddTransactions(const AppendBatch& batch, rocksdb::WriteBatch* write,
                               Appended* appended);
  absl::Status AddOne(const Position& position, int64_t commit_time_us, uint64_t bytes,
                      rocksdb::WriteBatch* write, Appended* appended);
  absl::Status AddGap(const AppendBatch& batch, rocksdb::WriteBatch* write);
  absl::Status AddSnapshotWhole(const Position& position, rocksdb::WriteBatch* write,
                                Appended* appended);
  void Publish(const AppendBatch& batch, const Appended& appended);

  Database& database_;
  const FeedId feed_;
  const StoreOptions options_;
  v1::FeedRecord record_;
  FeedState state_;

  // Writer's thread only.
  SchemaHistory schemas_;
  Spool spool_;
  SnapshotRows snapshot_rows_;
  LogSampler sampler_;
  TailRows tail_rows_;
  // Boundary of the initial snapshot, once it was asked for.
  std::optional<Position> snapshot_boundary_;

  Generations generations_;  // changed by the writer's thread
  LostRows lost_rows_;       // changed by the writer's thread

  mutable std::mutex mutex_;
  v1::Checkpoint checkpoint_;                           // protected by mutex_
  std::map<std::string, v1::TableState> table_states_;  // by key; protected by mutex_
  std::shared_ptr<const RowsPolicy> keeps_rows_;        // protected by mutex_; null: all with a key

  std::mutex trim_mutex_;  // one trim at a time
  std::mutex fold_mutex_;  // one fold at a time
  bool removed_ = false;   // set under both
  RowsFolder folder_;      // protected by fold_mutex_
  // Last: stops before what it uses goes.
  std::unique_ptr<FoldThread> fold_thread_;
};

}  // namespace tidemark::store
