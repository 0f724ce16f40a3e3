#include "tests/store/store_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/reason.h"

namespace tidemark::store {
namespace {

// The key of a row of SampleSchema.
int64_t IdOf(std::string_view values) {
  // A length-delimited field of below 128 bytes: tag, length, then the Value of column id.
  v1::Value value;
  const auto size = static_cast<unsigned char>(values[1]);
  value.ParseFromArray(values.data() + 2, size);
  return value.integer();
}

}  // namespace

StoreFixture::StoreFixture() {
  options_.path = scratch_ / "store";
  options_.fold_in_background = false;
}

void StoreFixture::Close() {
  feed_ = nullptr;
  store_.reset();
}

void StoreFixture::Open() {
  Close();
  auto opened = Store::Open(options_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  store_ = *std::move(opened);
  auto feed = store_->OpenFeed(kFeedName, "postgres");
  ASSERT_TRUE(feed.ok()) << feed.status();
  feed_ = *feed;
}

void StoreFixture::OpenWithLog() {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AppendBatch batch;
  batch.schemas = {schema_};
  batch.snapshot_whole = At(kSnapshotAt);
  batch.checkpoint = CheckpointAt(kSnapshotAt);
  const absl::Status status = feed_->Append(batch);
  ASSERT_TRUE(status.ok()) << status;
  Sync();
}

v1::Checkpoint StoreFixture::CheckpointAt(uint64_t engine) const {
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(At(engine).bytes()));
  return checkpoint;
}

EncodedRun StoreFixture::Run(uint64_t first_sequence,
                             const std::vector<v1::Change>& changes) const {
  return {first_sequence, 0, static_cast<uint32_t>(changes.size()), RunBytes(schema_, changes)};
}

EncodedTransaction StoreFixture::Inserts(uint64_t position, const std::vector<int64_t>& ids,
                                         size_t per_run) const {
  EncodedTransaction transaction;
  transaction.position = At(position);
  transaction.record.set_commit_time_us(static_cast<int64_t>(position));
  transaction.record.set_changes(ids.size());
  transaction.record.add_schema_ids(schema_.schema_id());
  for (size_t at = 0; at < ids.size(); at += per_run) {
    std::vector<v1::Change> changes;
    for (size_t i = at; i < std::min(ids.size(), at + per_run); ++i) {
      changes.push_back(Insert(ids[i], {TextValue(fmt::format("row {}", ids[i]))}));
    }
    transaction.runs.push_back(Run(at, changes));
  }
  return transaction;
}

EncodedTransaction StoreFixture::Large(uint64_t position, size_t bytes) const {
  EncodedTransaction transaction = Inserts(position, {});
  transaction.record.set_changes(1);
  // Text that no compression makes small, so that files have the size that the log has.
  std::string text(bytes, ' ');
  uint64_t state = position * 2654435761u + 1;
  // Eight characters at a time: one by one takes seconds under a sanitizer.
  for (size_t at = 0; at + sizeof state <= bytes; at += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t printable = ((state ^ state >> 29) & 0x3f3f3f3f3f3f3f3fu) + 0x2121212121212121u;
    std::memcpy(text.data() + at, &printable, sizeof printable);
  }
  transaction.runs.push_back(Run(0, {Insert(static_cast<int64_t>(position), {TextValue(text)})}));
  return transaction;
}

void StoreFixture::SetCommitTime(EncodedTransaction* transaction, absl::Time time) {
  transaction->record.set_commit_time_us(absl::ToUnixMicros(time));
}

absl::Status StoreFixture::TryAppend(std::vector<EncodedTransaction> transactions) {
  AppendBatch batch;
  if (!transactions.empty()) {
    batch.checkpoint = CheckpointAt(transactions.back().position.engine_low());
  }
  batch.transactions = std::move(transactions);
  return feed_->Append(batch);
}

void StoreFixture::Append(std::vector<EncodedTransaction> transactions) {
  const absl::Status status = TryAppend(std::move(transactions));
  ASSERT_TRUE(status.ok()) << status;
}

void StoreFixture::Sync() {
  const absl::Status status = feed_->Sync();
  ASSERT_TRUE(status.ok()) << status;
}

void StoreFixture::Fold() {
  for (;;) {
    const auto folded = feed_->FoldOnce();
    ASSERT_TRUE(folded.ok()) << folded.status();
    if (!*folded) return;
  }
}

std::vector<std::string> StoreFixture::ReadLog(uint64_t after) const {
  auto reader = feed_->NewLogReader(At(after));
  if (!reader.ok()) return {ReasonOf(reader.status())};
  return Drain(reader->get());
}

std::vector<std::string> StoreFixture::Drain(LogReader* reader) {
  std::vector<std::string> lines;
  StoredRun run;
  for (;;) {
    const absl::StatusOr<bool> more = reader->Next(&run);
    if (!more.ok()) lines.push_back(ReasonOf(more.status()));
    if (!more.ok() || !*more) return lines;
    lines.push_back(fmt::format("{}{}/{}+{}: {}{}", run.first_of_transaction ? "[" : "",
                                run.position.engine_low(), run.first_sequence, run.part,
                                run.bytes.size(), run.last_of_transaction ? "]" : ""));
  }
}

std::vector<uint64_t> StoreFixture::Positions(uint64_t after) const {
  auto reader = feed_->NewLogReader(At(after));
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<uint64_t> positions;
  StoredRun run;
  while (reader.ok()) {
    const absl::StatusOr<bool> more = (*reader)->Next(&run);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) break;
    if (run.last_of_transaction) positions.push_back(run.position.engine_low());
  }
  return positions;
}

std::vector<std::string> StoreFixture::ReadRows() const {
  auto reader = feed_->NewRowsReader();
  if (!reader.ok()) return {ReasonOf(reader.status())};
  std::vector<std::string> lines = {fmt::format("at {}", (*reader)->boundary().engine_low())};
  StoredRow row;
  for (;;) {
    const absl::StatusOr<bool> more = (*reader)->Next(&row);
    EXPECT_TRUE(more.ok()) << more.status();
    if (!more.ok() || !*more) return lines;
    lines.push_back(fmt::format("{}@{}", IdOf(row.values), row.position.engine_low()));
  }
}

}  // namespace tidemark::store
