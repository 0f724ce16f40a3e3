// Large transactions: spooled in parts, visible as a whole with their commit, gone without one.
#include <gmock/gmock.h>

#include "proto/reason.h"
#include "rocksdb/iterator.h"
#include "store/database.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class SpoolTest : public StoreFixture {
 protected:
  void Spool(uint64_t handle, uint64_t first_sequence, const std::vector<int64_t>& ids) {
    std::vector<v1::Change> changes;
    for (const int64_t id : ids) changes.push_back(Insert(id, {TextValue("spooled")}));
    const absl::Status status =
        feed_->SpoolParts(handle, {schema_}, {Run(first_sequence, changes)});
    ASSERT_TRUE(status.ok()) << status;
  }

  absl::Status Commit(uint64_t handle, uint64_t position, uint64_t changes) {
    AppendBatch batch;
    SpooledCommit commit{handle, At(position), {}};
    commit.record.set_changes(changes);
    commit.record.add_schema_ids(schema_.schema_id());
    batch.spooled.push_back(commit);
    batch.checkpoint = CheckpointAt(position);
    return feed_->Append(batch);
  }

  // Entries of the family spool; the store must be closed.
  size_t SpoolEntries() {
    StoreOptions options = options_;
    options.read_only = true;
    auto database = Database::Open(options);
    EXPECT_TRUE(database.ok()) << database.status();
    const std::unique_ptr<rocksdb::Iterator> at(
        (*database)->rocks()->NewIterator(rocksdb::ReadOptions(), (*database)->spool()));
    size_t entries = 0;
    for (at->SeekToFirst(); at->Valid(); at->Next()) ++entries;
    return entries;
  }
};

// proves R03: a large transaction is seen whole, at its commit, and never before.
TEST_F(SpoolTest, IsInvisibleUntilItsCommit) {
  OpenWithLog();
  Spool(7, 0, {1, 2});
  Append({Inserts(110, {9})});
  Spool(7, 2, {3});
  EXPECT_THAT(Positions(100), ElementsAre(110));
  ASSERT_TRUE(Commit(7, 120, 3).ok());
  Append({Inserts(130, {10})});
  EXPECT_THAT(ReadLog(110),
              ElementsAre(MatchesRegex("\\[120/0\\+0: [0-9]+"),
                          MatchesRegex("120/2\\+0: [0-9]+\\]"), MatchesRegex("\\[130/0.*\\]")));
}

TEST_F(SpoolTest, ReadersSkipAndRestInIt) {
  OpenWithLog();
  Spool(7, 0, {1});
  Spool(7, 1, {2});
  Spool(7, 2, {3});
  ASSERT_TRUE(Commit(7, 120, 3).ok());
  Append({Inserts(130, {10})});
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  StoredRun run;
  for (uint64_t sequence = 0; sequence < 3; ++sequence) {
    ASSERT_TRUE(*(*reader)->Next(&run));
    EXPECT_EQ(run.first_sequence, sequence);
    EXPECT_EQ(run.first_of_transaction, sequence == 0);
    EXPECT_EQ(run.last_of_transaction, sequence == 2);
    (*reader)->Rest();
  }
  ASSERT_TRUE(*(*reader)->Next(&run));
  EXPECT_EQ(run.position, At(130));

  reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(*(*reader)->Next(&run));
  (*reader)->SkipTransaction();
  ASSERT_TRUE(*(*reader)->Next(&run));
  EXPECT_EQ(run.position, At(130));
}

TEST_F(SpoolTest, InterleavedTransactionsStayApart) {
  OpenWithLog();
  Spool(1, 0, {1});
  Spool(2, 0, {2});
  Spool(1, 1, {3});
  Spool(2, 1, {4});
  Spool(2, 2, {5});
  AppendBatch batch;
  batch.spooled = {{2, At(110), {}}, {1, At(130), {}}};
  batch.transactions = {Inserts(120, {6}), Inserts(140, {7})};
  ASSERT_TRUE(feed_->Append(batch).ok());
  EXPECT_THAT(Positions(100), ElementsAre(110, 120, 130, 140));
  EXPECT_EQ(ReadLog(100).size(), 3 + 1 + 2 + 1);
}

TEST_F(SpoolTest, AbortedPartsAreGoneAndTheHandleIsFreeAgain) {
  OpenWithLog();
  Spool(7, 0, {1, 2});
  ASSERT_TRUE(feed_->AbortSpool(7).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Commit(7, 120, 2)));
  Spool(7, 0, {3});
  ASSERT_TRUE(Commit(7, 130, 1).ok());
  EXPECT_EQ(ReadLog(100).size(), 1);
  Close();
  EXPECT_EQ(SpoolEntries(), 1);
}

TEST_F(SpoolTest, LeftoversOfACrashAreRemovedAndCommittedOnesStay) {
  OpenWithLog();
  Spool(1, 0, {1, 2});
  ASSERT_TRUE(Commit(1, 110, 2).ok());
  Spool(2, 0, {3});
  Spool(3, 0, {4});
  const auto before = ReadLog(100);
  Open();
  EXPECT_EQ(ReadLog(100), before);
  EXPECT_TRUE(absl::IsInvalidArgument(Commit(2, 120, 1)));
  // Its id is not given again: what was written under the old one must not show.
  Spool(2, 0, {5});
  ASSERT_TRUE(Commit(2, 130, 1).ok());
  EXPECT_THAT(Positions(100), ElementsAre(110, 130));
  Close();
  EXPECT_EQ(SpoolEntries(), 2);
}

TEST_F(SpoolTest, ANewSnapshotRemovesWhatAnUnfinishedOneLeft) {
  Open();
  ASSERT_TRUE(feed_->AddSnapshotRows({schema_}, {Run(0, {Insert(1, {TextValue("a")})})}).ok());
  Spool(1, 0, {1});
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  EXPECT_THAT(feed_->CurrentSchemas(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(feed_->Schema(schema_.schema_id()).status()));
  Close();
  EXPECT_EQ(SpoolEntries(), 0);
}

TEST_F(SpoolTest, ReaderInATrimmedLargeTransactionIsToldSo) {
  OpenWithLog();
  Spool(1, 0, {1});
  Spool(1, 1, {2});
  ASSERT_TRUE(Commit(1, 110, 2).ok());
  Append({Inserts(120, {3})});
  Sync();
  Fold();
  auto resting = feed_->NewLogReader(At(100));
  auto reading = feed_->NewLogReader(At(100));
  ASSERT_TRUE(resting.ok() && reading.ok());
  StoredRun run;
  ASSERT_TRUE(*(*resting)->Next(&run));
  (*resting)->Rest();
  ASSERT_TRUE(*(*reading)->Next(&run));
  RetentionBounds bounds;
  bounds.bytes = 1;
  ASSERT_TRUE(feed_->Trim(bounds, absl::Now(), std::nullopt).ok());
  EXPECT_GE(feed_->floor(), At(110));
  EXPECT_EQ(ReasonOf((*resting)->Next(&run).status()), reason::kCursorExpired);
  // One that holds its view finishes the transaction that it has begun.
  ASSERT_TRUE(*(*reading)->Next(&run));
  EXPECT_TRUE(run.last_of_transaction);
  reading->reset();
  resting->reset();
  Close();
  EXPECT_EQ(SpoolEntries(), 0);
}

}  // namespace
}  // namespace tidemark::store
