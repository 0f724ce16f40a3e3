#include "tests/capture/poll/poll_driver.h"

#include <algorithm>
#include <iterator>

#include "absl/time/clock.h"
#include "tests/testing/wait_until.h"

namespace tidemark::capture {
namespace {

constexpr std::chrono::seconds kDeadline{60};

void SetMilliseconds(int64_t ms, google::protobuf::Duration* out) {
  out->set_seconds(ms / 1000);
  out->set_nanos(static_cast<int32_t>(ms % 1000 * 1'000'000));
}

}  // namespace

v1::FeedConfig PolledFeedOf(const testing::LivePostgres& postgres,
                            const std::vector<PolledOptions>& tables) {
  v1::FeedConfig config;
  config.set_name("shop");
  v1::PollConfig* poll = config.mutable_poll();
  poll->mutable_postgres()->set_host("127.0.0.1");
  poll->mutable_postgres()->set_port(postgres.port());
  poll->mutable_postgres()->set_database("postgres");
  poll->mutable_postgres()->set_user("postgres");
  for (const PolledOptions& options : tables) {
    v1::PolledTable* table = poll->add_tables();
    table->set_table(options.table);
    table->set_cursor(options.cursor);
    table->mutable_key()->Assign(options.key.begin(), options.key.end());
    table->set_null_cursor(options.null_cursor);
    table->set_deleted(options.deleted);
    if (options.tombstones.empty()) continue;
    table->mutable_tombstones()->set_table(options.tombstones);
    table->mutable_tombstones()->set_cursor("at");
  }
  SetMilliseconds(10, poll->mutable_interval());
  // Rows that are stamped now are told at once.
  SetMilliseconds(0, poll->mutable_delay());
  return config;
}

PollDriver::PollDriver(v1::FeedConfig wanted) : config(std::move(wanted)) { Restart(); }

void PollDriver::Restart() {
  source_ = std::make_unique<PollSource>(config);
  source_->UseKnownRows(&rows);
  open_ = false;
  parts_.clear();
}

absl::Status PollDriver::Open() {
  parts_.clear();
  absl::Status status = source_->Open(checkpoint, generation);
  open_ = status.ok();
  return status;
}

absl::Status PollDriver::ReadOnce() {
  absl::StatusOr<CaptureBatch> batch = source_->Read(absl::Now() + absl::Milliseconds(100));
  if (!batch.ok()) {
    open_ = false;
    source_->Close();
    return batch.status();
  }
  const bool kept = batch->checkpoint.has_value();
  Keep(*std::move(batch));
  if (!kept) return absl::OkStatus();
  return source_->Confirm(Position::FromBytes(checkpoint.position()).value_or(Position()));
}

::testing::AssertionResult PollDriver::ReadUntil(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + kDeadline * testing::kDeadlineFactor;
  while (!done()) {
    absl::Status status = open_ ? ReadOnce() : Open();
    if (!status.ok()) {
      last_error = status;
      if (!IsRetried(status)) return ::testing::AssertionFailure() << "source failed: " << status;
      testing::WaitUntil([] { return false; }, std::chrono::milliseconds(20));
    }
    if (std::chrono::steady_clock::now() >= end) {
      return ::testing::AssertionFailure() << "not reached; last error " << last_error
                                           << ", status " << Status().ShortDebugString();
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult PollDriver::ReadUntilWhole() {
  return ReadUntil([&] { return whole.has_value(); });
}

::testing::AssertionResult PollDriver::Poll(int count) {
  uint64_t goal = 0;
  return ReadUntil([&] {
    const uint64_t polls = checkpoint.poll().polls();
    if (!open_ || !whole) return false;
    if (goal == 0) {
      // One may be under way.
      goal = Status().poll().polls() + 1 + static_cast<uint64_t>(count);
      source_->Prove(Position::Of(generation, goal));
      return false;
    }
    return polls >= goal;
  });
}

::testing::AssertionResult PollDriver::ReadUntilFailed() {
  const auto failed = [&] { return !last_error.ok() && !IsRetried(last_error); };
  last_error = absl::OkStatus();
  const ::testing::AssertionResult read = ReadUntil(failed);
  if (failed()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << read.message();
}

std::vector<std::string> PollDriver::Changes() const {
  std::vector<std::string> texts;
  for (const SeenTransaction& transaction : transactions) {
    for (const SeenChange& change : transaction.changes) texts.push_back(change.Text());
  }
  return texts;
}

std::vector<std::string> PollDriver::NewChanges() {
  std::vector<std::string> all = Changes();
  std::vector<std::string> fresh(all.begin() + static_cast<std::ptrdiff_t>(told_), all.end());
  told_ = all.size();
  return fresh;
}

std::vector<std::string> PollDriver::SnapshotRows() const {
  std::vector<std::string> texts;
  for (const SeenChange& row : snapshot_rows) texts.push_back(row.Text());
  return texts;
}

v1::FeedStatus PollDriver::Status() const {
  v1::FeedStatus status;
  source_->FillStatus(&status);
  return status;
}

std::vector<SeenChange> PollDriver::Decode(const std::vector<EncodedRun>& runs) const {
  std::vector<SeenChange> changes;
  for (const EncodedRun& encoded : runs) {
    v1::Run run;
    EXPECT_TRUE(run.ParseFromString(encoded.bytes));
    for (const v1::Change& change : run.changes()) {
      const auto schema = schemas.find(run.schema_ids(static_cast<int>(change.table())));
      EXPECT_NE(schema, schemas.end()) << "a run names a schema before it was seen";
      if (schema == schemas.end()) continue;
      changes.push_back({encoded.first_sequence + change.ordinal(), schema->second, change});
    }
  }
  return changes;
}

void PollDriver::Add(const Position& position, v1::CommitRecord record,
                     const std::vector<EncodedRun>& runs, bool large) {
  if (!transactions.empty()) {
    EXPECT_LT(transactions.back().position, position) << "positions must rise";
  }
  SeenTransaction transaction{position, std::move(record), Decode(runs), {}, large};
  EXPECT_EQ(transaction.record.changes(), transaction.changes.size());
  for (const SeenChange& change : transaction.changes) rows.Apply(change.schema, change.change);
  transactions.push_back(std::move(transaction));
}

void PollDriver::Keep(CaptureBatch batch) {
  for (SourceEvent& event : batch.events) {
    if (auto* seen = std::get_if<SchemaSeen>(&event)) {
      schemas[seen->schema.schema_id()] = seen->schema;
      rows.See(seen->schema);
    } else if (auto* read = std::get_if<TransactionRead>(&event)) {
      Add(read->transaction.position, read->transaction.record, read->transaction.runs, false);
    } else if (auto* part = std::get_if<LargePart>(&event)) {
      ++large_parts;
      std::vector<EncodedRun>& runs = parts_[part->handle];
      std::move(part->runs.begin(), part->runs.end(), std::back_inserter(runs));
    } else if (auto* committed = std::get_if<LargeCommitted>(&event)) {
      Add(committed->position, committed->record, parts_[committed->handle], true);
      parts_.erase(committed->handle);
    } else if (auto* aborted = std::get_if<LargeAborted>(&event)) {
      parts_.erase(aborted->handle);
    } else if (auto* read_rows = std::get_if<capture::SnapshotRows>(&event)) {
      for (SeenChange& row : Decode(read_rows->runs)) snapshot_rows.push_back(std::move(row));
    } else if (auto* snapshot = std::get_if<SnapshotWhole>(&event)) {
      whole = snapshot->position;
      for (const SeenChange& row : snapshot_rows) rows.Apply(row.schema, row.change);
    }
  }
  if (batch.finished) finished = batch.finished;
  if (batch.made) ++made_batches;
  if (!batch.notice.empty()) notices.push_back(batch.notice);
  if (batch.gap) {
    gap = batch.gap;
    ++generation;
  }
  if (!batch.checkpoint) return;
  checkpoint = *batch.checkpoint;
  if (checkpoint.snapshot_phase() == v1::SNAPSHOT_PHASE_PREPARING) snapshot_rows.clear();
}

}  // namespace tidemark::capture
