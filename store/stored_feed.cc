#include "store/stored_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/reason.h"
#include "store/change_log.h"
#include "store/feed_removal.h"
#include "store/log_recovery.h"
#include "store/log_trim.h"
#include "store/row_value.h"
#include "store/spool_index.h"
#include "store/spool_reader.h"
#include "store/stored_log_reader.h"
#include "store/stored_rows_reader.h"

namespace tidemark::store {
namespace {

rocksdb::Slice Bytes(const Position& position) {
  return {position.bytes().data(), Position::kBytes};
}

absl::Status NotRising(const Position& position, const Position& head) {
  return absl::InvalidArgumentError(
      fmt::format("positions only rise: {} does not lie behind {}", position.Text(), head.Text()));
}

}  // namespace

StoredFeed::StoredFeed(Database* database, FeedId feed, const StoreOptions& options)
    : database_(*database),
      feed_(feed),
      options_(options),
      schemas_(database, feed),
      spool_(database, feed),
      snapshot_rows_(database, feed, Lookups()),
      tail_rows_(database, feed, &state_, RowKeys(feed, Lookups().schema, Lookups().keeps_rows),
                 [this] { return FoldToHead(); }),
      generations_(database, feed),
      lost_rows_(database, feed),
      folder_(database, feed, &state_, Lookups()) {}

StoredFeed::~StoredFeed() { fold_thread_.reset(); }

// ---- Opening.

absl::StatusOr<std::unique_ptr<StoredFeed>> StoredFeed::Open(Database* database, FeedId feed,
                                                             const StoreOptions& options) {
  std::unique_ptr<StoredFeed> opened(new StoredFeed(database, feed, options));
  if (absl::Status status = opened->Load(); !status.ok()) return status;
  return opened;
}

absl::Status StoredFeed::Load() {
  const auto record = database_.ReadMeta(FeedRecordKey(feed_));
  if (!record.ok()) return record.status();
  if (!record_.ParseFromString(*record)) return database_.Damaged("a feed's record is unreadable");
  if (absl::Status status = generations_.Open(record_); !status.ok()) return status;
  if (absl::Status status = schemas_.Open(); !status.ok()) return status;
  if (absl::Status status = spool_.Open(); !status.ok()) return status;
  if (absl::Status status = lost_rows_.Open(); !status.ok()) return status;
  const auto checkpoint = database_.ReadMeta(CheckpointKey(feed_));
  if (checkpoint.ok() && !checkpoint_.ParseFromString(*checkpoint)) {
    return database_.Damaged("a feed's checkpoint is unreadable");
  }
  if (!checkpoint.ok() && !absl::IsNotFound(checkpoint.status())) return checkpoint.status();
  if (absl::Status status = LoadTableStates(); !status.ok()) return status;
  const auto whole = database_.ReadMeta(SnapshotWholeKey(feed_));
  if (absl::IsNotFound(whole.status())) return absl::OkStatus();
  if (!whole.ok()) return whole.status();
  const auto position = Position::FromBytes(checkpoint_.position());
  const auto log = RecoverLog(database_, feed_, position.ok() ? *position : Position());
  if (!log.ok()) return log.status();
  sampler_ = log->sampler;
  state_.Update([&](FeedBoundaries& now) { now = log->boundaries; });
  return absl::OkStatus();
}

absl::Status StoredFeed::LoadTableStates() {
  const std::string prefix = TableStatePrefix(feed_);
  const std::unique_ptr<rocksdb::Iterator> at(
      database_.rocks()->NewIterator(rocksdb::ReadOptions(), database_.meta()));
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    v1::TableState& state = table_states_[at->key().ToString()];
    if (!state.ParseFromArray(at->value().data(), static_cast<int>(at->value().size()))) {
      return database_.Damaged("what is remembered of a table is unreadable");
    }
  }
  return database_.Error(at->status(), "read what is remembered of the tables");
}

// ---- Writing.

absl::Status StoredFeed::Append(const AppendBatch& batch) {
  if (absl::Status status = WaitForFold(); !status.ok()) return status;
  if (batch.lost.empty() && batch.restored.empty()) return AppendAll(batch);
  // What came before a restored table's rows is not to be folded into them.
  if (!batch.restored.empty()) {
    if (absl::Status status = FoldToHead(); !status.ok()) return status;
  }
  absl::Status status;
  {
    // A fold under way would put back the rows that go.
    std::lock_guard lock(fold_mutex_);
    status = AppendAll(batch);
  }
  tail_rows_.Forget();
  return status;
}

absl::Status StoredFeed::AppendAll(const AppendBatch& batch) {
  rocksdb::WriteBatch write;
  Appended appended{state_.Get().head, sampler_, absl::ToUnixMicros(absl::Now())};
  absl::Status status = schemas_.Learn(batch.schemas, &write);
  if (status.ok() && batch.snapshot_whole) {
    status = AddSnapshotWhole(*batch.snapshot_whole, &write, &appended);
  }
  if (status.ok()) status = AddGap(batch, &write);
  if (status.ok()) status = AddTransactions(batch, &write, &appended);
  if (status.ok() && !batch.schemas.empty() && (batch.snapshot_whole || snapshot_whole())) {
    schemas_.StageFirst(appended.head, &write);
  }
  if (status.ok() && batch.checkpoint) {
    write.Put(database_.meta(), CheckpointKey(feed_), batch.checkpoint->SerializeAsString());
  }
  for (const v1::LostTable& table : batch.lost) lost_rows_.Stage(table, &write);
  for (const auto& table : batch.restored) lost_rows_.StageRestored(table, &write);
  for (const v1::TableState& state : batch.table_states) {
    write.Put(database_.meta(), TableStateKey(feed_, state.schema_name(), state.table_name()),
              state.SerializeAsString());
  }
  // Rows must not go from the disk before it is there why; nor is a generation begun twice.
  const bool sync = !batch.lost.empty() || batch.gap.has_value();
  if (status.ok()) status = database_.Write(&write, sync);
  if (!status.ok()) {
    schemas_.Drop();
    generations_.Drop();
    lost_rows_.Drop();
    return status;
  }
  Publish(batch, appended);
  return absl::OkStatus();
}

absl::Status StoredFeed::WaitForFold() {
  const auto has_room = [this](const FeedBoundaries& now) {
    return now.log_bytes_synced <= now.log_bytes_folded + options_.unfolded_tail_bytes_max;
  };
  if (has_room(state_.Get()) || state_.WaitFor(kFoldWait, has_room)) return absl::OkStatus();
  const absl::Status cause = fold_status();
  return ErrorWithReason(
      absl::StatusCode::kUnavailable, reason::kFoldBehind,
      fmt::format(
          "the rows of feed {} are {} MiB behind its log, which is the most that is "
          "allowed; capture goes on when they have caught up{}{}",
          record_.name(), options_.unfolded_tail_bytes_max >> 20,
          cause.ok() ? "" : ". The fold fails: ", cause.ok() ? "" : std::string(cause.message())));
}

absl::Status StoredFeed::AddGap(const AppendBatch& batch, rocksdb::WriteBatch* write) {
  if (!batch.gap) return absl::OkStatus();
  const bool nothing_else = batch.transactions.empty() && batch.spooled.empty();
  if (!snapshot_whole() || !nothing_else || !batch.checkpoint ||
      batch.checkpoint->position() != batch.gap->to()) {
    return absl::InvalidArgumentError("a gap comes alone, with the checkpoint behind it");
  }
  return generations_.Stage(*batch.gap, *batch.checkpoint, head(), write);
}

absl::Status StoredFeed::AddSnapshotWhole(const Position& position, rocksdb::WriteBatch* write,
                                          Appended* appended) {
  if (snapshot_whole()) return absl::FailedPreconditionError("the snapshot is whole already");
  if (absl::Status status = snapshot_rows_.Flush(); !status.ok()) return status;
  write->Put(database_.meta(), SnapshotWholeKey(feed_), Bytes(position));
  write->Put(database_.meta(), FloorKey(feed_), LogTrim{position}.Encode());
  write->Put(database_.rows(), RowsMarkerKey(feed_), RowsMarker{position, position}.Encode());
  schemas_.StageFirst(position, write);
  appended->head = position;
  return absl::OkStatus();
}

absl::Status StoredFeed::AddTransactions(const AppendBatch& batch, rocksdb::WriteBatch* write,
                                         Appended* appended) {
  if (batch.transactions.empty() && batch.spooled.empty()) return absl::OkStatus();
  if (!snapshot_whole() && !batch.snapshot_whole) {
    return absl::FailedPreconditionError("the log begins when the snapshot is whole");
  }
  appended->transactions = true;
  auto spooled = batch.spooled.begin();
  for (auto small = batch.transactions.begin();
       small != batch.transactions.end() || spooled != batch.spooled.end();) {
    absl::Status status;
    if (spooled == batch.spooled.end() ||
        (small != batch.transactions.end() && small->position < spooled->position)) {
      status = schemas_.Stage(small->position, small->runs, small->record, write);
      if (!status.ok()) return status;
      status = AddOne(small->position, small->record.commit_time_us(),
                      AddTransaction(database_, feed_, *small, write), write, appended);
      ++small;
    } else {
      const auto parts = spool_.Find(spooled->handle);
      if (!parts.ok()) return parts.status();
      schemas_.Stage(spooled->position, (*parts)->schemas, write);
      status = AddOne(
          spooled->position, spooled->record.commit_time_us(),
          AddSpooledCommit(database_, feed_, spooled->position, spooled->record, **parts, write),
          write, appended);
      ++spooled;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StoredFeed::AddOne(const Position& position, int64_t commit_time_us, uint64_t bytes,
                                rocksdb::WriteBatch* write, Appended* appended) {
  if (position <= appended->head) return NotRising(position, appended->head);
  if (position.generation() != generation()) {
    return absl::InvalidArgumentError(
        fmt::format("{} is not of the present generation {}", position.Text(), generation()));
  }
  appended->head = position;
  if (appended->sampler.Add(commit_time_us, bytes, appended->clock_us)) {
    write->Put(database_.meta(), SampleKey(feed_, position), appended->sampler.now().Encode());
  }
  return absl::OkStatus();
}

void StoredFeed::Publish(const AppendBatch& batch, const Appended& appended) {
  for (const SpooledCommit& commit : batch.spooled) spool_.Forget(commit.handle);
  schemas_.Keep();
  // Before the head moves: who sees what lies behind a gap sees the gap.
  generations_.Keep();
  lost_rows_.Keep();
  sampler_ = appended.sampler;
  Position head = appended.head;
  if (!batch.table_states.empty()) {
    std::lock_guard lock(mutex_);
    for (const v1::TableState& state : batch.table_states) {
      table_states_[TableStateKey(feed_, state.schema_name(), state.table_name())] = state;
    }
  }
  if (batch.checkpoint) {
    std::lock_guard lock(mutex_);
    checkpoint_ = *batch.checkpoint;
    const auto position = Position::FromBytes(checkpoint_.position());
    if (position.ok()) head = std::max(head, *position);
  }
  if (!snapshot_whole() && !batch.snapshot_whole) return;
  state_.Update([&](FeedBoundaries& now) {
    now.head = head;
    now.log_bytes_written = sampler_.now().log_bytes;
    now.log_transactions_written = sampler_.now().transactions;
    if (!batch.snapshot_whole) return;
    now.snapshot_whole = true;
    now.floor = now.folded = *batch.snapshot_whole;
  });
  if (appended.transactions) state_.CountAppend();
}

absl::Status StoredFeed::SpoolParts(uint64_t handle, const std::vector<v1::TableSchema>& schemas,
                                    const std::vector<EncodedRun>& runs) {
  rocksdb::WriteBatch write;
  if (absl::Status status = schemas_.Learn(schemas, &write); !status.ok()) return status;
  return spool_.Write(handle, runs, schemas_.Tables(), &write);
}

absl::StatusOr<std::unique_ptr<SpoolReader>> StoredFeed::NewSpoolReader(uint64_t handle) const {
  const auto parts = spool_.Find(handle);
  if (!parts.ok()) return parts.status();
  return std::make_unique<StoredSpoolReader>(database_, feed_, (*parts)->spool_id);
}

absl::StatusOr<std::string> StoredFeed::ReadSpooled(uint64_t handle, uint64_t first_sequence,
                                                    uint32_t part) const {
  const auto parts = spool_.Find(handle);
  if (!parts.ok()) return parts.status();
  std::string run;
  const rocksdb::Status status = database_.rocks()->Get(
      rocksdb::ReadOptions(), database_.spool(),
      SpoolKey{feed_, (*parts)->spool_id, first_sequence, part}.Encode(), &run);
  if (status.IsNotFound()) return absl::NotFoundError("no such run in the spool");
  if (!status.ok()) return database_.Error(status, "read the spool");
  return run;
}

absl::StatusOr<std::unique_ptr<IndexOverflow>> StoredFeed::NewIndexOverflow() {
  const auto id = spool_.TakeId();
  if (!id.ok()) return id.status();
  return std::make_unique<SpoolIndex>(&database_, feed_, *id);
}

absl::Status StoredFeed::Sync() {
  const FeedBoundaries before = state_.Get();
  if (absl::Status status = database_.SyncWal(); !status.ok()) return status;
  state_.Update([&](FeedBoundaries& now) {
    now.synced = std::max(now.synced, before.head);
    now.log_bytes_synced = std::max(now.log_bytes_synced, before.log_bytes_written);
  });
  return absl::OkStatus();
}

absl::Status StoredFeed::BeginSnapshot() {
  if (snapshot_whole()) return absl::FailedPreconditionError("the snapshot is whole already");
  if (absl::Status status = spool_.AbortAll(); !status.ok()) return status;
  if (absl::Status status = RemoveSpoolLeftovers(&database_, feed_); !status.ok()) return status;
  if (absl::Status status = snapshot_rows_.Clear(); !status.ok()) return status;
  rocksdb::WriteBatch write;
  write.DeleteRange(database_.schemas(), FeedPrefix(feed_), FeedPrefix(feed_ + 1));
  write.DeleteRange(database_.meta(), TableStatePrefix(feed_), TableStatePrefix(feed_ + 1));
  if (absl::Status status = database_.Write(&write, /*sync=*/true); !status.ok()) return status;
  schemas_.Clear();
  std::lock_guard lock(mutex_);
  table_states_.clear();
  return absl::OkStatus();
}

absl::Status StoredFeed::AddSnapshotRows(const std::vector<v1::TableSchema>& schemas,
                                         const std::vector<EncodedRun>& runs) {
  if (snapshot_whole()) return absl::FailedPreconditionError("the snapshot is whole already");
  rocksdb::WriteBatch write;
  if (absl::Status status = schemas_.Learn(schemas, &write); !status.ok()) return status;
  if (absl::Status status = database_.Write(&write, /*sync=*/false); !status.ok()) return status;
  return snapshot_rows_.Add(runs);
}

// ---- Rows.

FoldLookups StoredFeed::Lookups() {
  return {[this](uint64_t id) { return schemas_.Schema(id); },
          [this](const v1::TableSchema& schema) { return KeepsRows(schema); },
          [this](std::string_view key) -> absl::StatusOr<std::optional<std::string>> {
            std::string row;
            const rocksdb::Status status = database_.rocks()->Get(
                rocksdb::ReadOptions(), database_.rows(), {key.data(), key.size()}, &row);
            if (status.IsNotFound()) return std::nullopt;
            if (!status.ok()) return database_.Error(status, "read a row");
            return row;
          }};
}

void StoredFeed::SetRowsPolicy(std::function<bool(const v1::TableSchema&)> keeps_rows) {
  {
    std::lock_guard lock(mutex_);
    keeps_rows_ = std::make_shared<const RowsPolicy>(std::move(keeps_rows));
  }
  if (options_.fold_in_background && fold_thread_ == nullptr) {
    fold_thread_ = std::make_unique<FoldThread>([this] { return FoldOnce(); }, &state_);
  }
}

bool StoredFeed::KeepsRows(const v1::TableSchema& schema) const {
  if (schema.key_columns().empty() || lost_rows_.Has(schema)) return false;
  std::shared_ptr<const RowsPolicy> policy;
  {
    std::lock_guard lock(mutex_);
    policy = keeps_rows_;
  }
  return policy == nullptr || (*policy)(schema);
}

absl::StatusOr<std::unique_ptr<RowsReader>> StoredFeed::NewRowsReader() const {
  return StoredRowsReader::Open(database_, feed_);
}

absl::StatusOr<std::unique_ptr<RowsReader>> StoredFeed::NewTableRowsReader(
    const v1::TableSchema& table, std::string_view from_key) const {
  return StoredRowsReader::Open(
      database_, feed_, RowsTablePrefix(feed_, table.schema_name(), table.table_name()), from_key);
}

absl::StatusOr<std::optional<std::string>> StoredFeed::FindRow(const v1::TableSchema& table,
                                                               std::string_view key) {
  if (!snapshot_whole() || !KeepsRows(table)) return std::nullopt;
  const std::string prefix = RowsTablePrefix(feed_, table.schema_name(), table.table_name());
  auto row = tail_rows_.Find(prefix, prefix + std::string(key));
  if (!row.ok() || !row->has_value()) return row;
  const auto decoded = DecodeRow(**row);
  if (!decoded) return database_.Damaged("a current row is shorter than its header");
  if (decoded->position == Position()) {
    // No transaction has written it since the snapshot.
    if (!snapshot_boundary_) {
      const auto marker = ReadRowsMarker(database_, feed_);
      if (!marker.ok()) return marker.status();
      snapshot_boundary_ = marker->snapshot;
    }
    (*row)->replace(0, Position::kBytes, snapshot_boundary_->bytes());
  }
  return row;
}

absl::StatusOr<bool> StoredFeed::FoldOnce() {
  std::lock_guard lock(fold_mutex_);
  if (removed_) return false;
  const FeedBoundaries from = state_.Get();
  if (!from.snapshot_whole || from.synced <= from.folded) return false;
  const auto has_rows = [this](const v1::TableSchema& schema) { return KeepsRows(schema); };
  const absl::StatusOr<Position> reached =
      schemas_.Any(has_rows) ? folder_.Fold(from) : folder_.PassOver(from);
  if (!reached.ok()) return reached.status();
  const uint64_t bytes = *reached == from.synced
                             ? from.log_bytes_synced
                             : LogBytesThrough(database_, feed_, from, *reached);
  state_.Update([&](FeedBoundaries& now) {
    now.folded = *reached;
    now.log_bytes_folded = bytes;
  });
  return true;
}

absl::Status StoredFeed::FoldToHead() {
  if (absl::Status status = Sync(); !status.ok()) return status;
  while (folded() < head()) {
    const absl::StatusOr<bool> folded_some = FoldOnce();
    if (!folded_some.ok()) return folded_some.status();
  }
  return absl::OkStatus();
}

absl::Status StoredFeed::fold_status() const {
  return fold_thread_ == nullptr ? absl::OkStatus() : fold_thread_->status();
}

// ---- Looking.

std::vector<v1::TableState> StoredFeed::table_states() const {
  std::lock_guard lock(mutex_);
  std::vector<v1::TableState> states;
  for (const auto& [key, state] : table_states_) states.push_back(state);
  return states;
}

v1::Checkpoint StoredFeed::checkpoint() const {
  std::lock_guard lock(mutex_);
  return checkpoint_;
}

uint64_t StoredFeed::BytesBehind(const Position& boundary) const {
  const FeedBoundaries now = state_.Get();
  return now.log_bytes_written - LogBytesThrough(database_, feed_, now, boundary);
}

uint64_t StoredFeed::log_bytes() const {
  const FeedBoundaries now = state_.Get();
  return now.log_bytes_written - now.log_bytes_trimmed;
}

uint64_t StoredFeed::unfolded_bytes() const {
  const FeedBoundaries now = state_.Get();
  return now.log_bytes_written - std::min(now.log_bytes_written, now.log_bytes_folded);
}

uint64_t StoredFeed::log_transactions() const {
  const FeedBoundaries now = state_.Get();
  return now.log_transactions_written - now.log_transactions_trimmed;
}

absl::StatusOr<std::unique_ptr<LogReader>> StoredFeed::NewLogReader(const Position& after) const {
  if (absl::Status status = CheckFloor(after, floor()); !status.ok()) return status;
  return std::make_unique<StoredLogReader>(database_, state_, feed_, after);
}

absl::StatusOr<std::optional<std::pair<Position, v1::CommitRecord>>> StoredFeed::RecordAtOrBefore(
    const Position& boundary) const {
  auto found = FindRecordAtOrBefore(database_, feed_, boundary);
  if (found.ok() && *found && (*found)->first <= floor()) return std::nullopt;
  return found;
}

// ---- Upkeep.

absl::Status StoredFeed::Trim(const RetentionBounds& bounds, absl::Time now,
                              std::optional<Position> keep_from) {
  std::lock_guard lock(trim_mutex_);
  if (removed_) return absl::OkStatus();
  const FeedBoundaries boundaries = state_.Get();
  if (!boundaries.snapshot_whole) return absl::OkStatus();
  const LogTrim before{boundaries.floor, boundaries.floor_commit_time_us,
                       boundaries.log_bytes_trimmed, boundaries.log_transactions_trimmed};
  const RetentionFacts facts{bounds, now, boundaries.log_bytes_written,
                             KeepFrom(boundaries.folded, keep_from)};
  const auto trim = FindTrim(database_, feed_, before, facts);
  if (!trim.ok()) return trim.status();
  if (!*trim) return absl::OkStatus();
  const auto raise_floor = [this](const LogTrim& to) {
    state_.Update([&](FeedBoundaries& now) {
      now.floor = to.floor;
      now.floor_commit_time_us = to.commit_time_us;
      now.log_bytes_trimmed = to.log_bytes;
      now.log_transactions_trimmed = to.transactions;
    });
  };
  // Before anything is deleted: a reader that misses something must meet a floor that says so.
  raise_floor(**trim);
  return WriteTrim(&database_, feed_, **trim);
}

// ---- Dropping.

absl::Status StoredFeed::BeginDrop(const std::optional<v1::PostgresCheckpoint>& left) {
  v1::DropRecord record;
  record.set_feed(feed_);
  if (left) *record.mutable_left() = *left;
  return NoteDrop(&database_, record_.name(), record);
}

absl::Status StoredFeed::CancelDrop() { return ForgetDrop(&database_, record_.name()); }

absl::Status StoredFeed::Remove() {
  std::scoped_lock lock(trim_mutex_, fold_mutex_);
  removed_ = true;
  // As before a trim.
  state_.Update([](FeedBoundaries& now) { now.floor = now.folded = now.synced = now.head; });
  return RemoveFeed(&database_, feed_, record_.name(), DropNote::kForget);
}

}  // namespace tidemark::store
