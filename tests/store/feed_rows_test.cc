// Rows are the snapshot and the fold of the synced log, always at a commit boundary.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <numeric>

#include "proto/reason.h"
#include "store/rows_folder.h"
#include "store/rows_writer.h"
#include "store/snapshot_rows.h"
#include "tests/store/store_fixture.h"
#include "tests/testing/wait_until.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;

class FeedRowsTest : public StoreFixture {
 protected:
  void AddSnapshotRows(const std::vector<int64_t>& ids,
                       const std::string& text = "from the snapshot") {
    std::vector<v1::Change> changes;
    for (const int64_t id : ids) {
      changes.push_back(Insert(id, {TextValue(text)}));
      changes.back().set_op(v1::OP_READ);
    }
    const absl::Status status = feed_->AddSnapshotRows({schema_}, {Run(0, changes)});
    ASSERT_TRUE(status.ok()) << status;
  }

  void MakeWhole() {
    AppendBatch batch;
    batch.snapshot_whole = At(kSnapshotAt);
    batch.checkpoint = CheckpointAt(kSnapshotAt);
    ASSERT_TRUE(feed_->Append(batch).ok());
  }
};

// proves H1: nothing of a snapshot is seen before it is whole.
TEST_F(FeedRowsTest, SnapshotIsInvisibleUntilItIsWhole) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AddSnapshotRows({3, 1});
  EXPECT_THAT(ReadRows(), ElementsAre(reason::kFeedNotReady));
  AddSnapshotRows({2});
  MakeWhole();
  EXPECT_TRUE(feed_->snapshot_whole());
  EXPECT_EQ(feed_->floor(), At(100));
  EXPECT_EQ(feed_->head(), At(100));
  EXPECT_THAT(ReadRows(), ElementsAre("at 100", "1@100", "2@100", "3@100"));
  EXPECT_TRUE(absl::IsFailedPrecondition(feed_->BeginSnapshot()));
  EXPECT_THAT(ReadRows(), ElementsAre("at 100", "1@100", "2@100", "3@100"));
}

TEST_F(FeedRowsTest, AnUnfinishedSnapshotIsReplacedByTheNext) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  // More than are held in memory, and more than go as a batch: they reach the disk in a file.
  std::vector<int64_t> many(2 * kBatchRowsMax);
  std::iota(many.begin(), many.end(), 0);
  const uint64_t before = store_->DiskBytes();
  AddSnapshotRows(many, std::string(kSnapshotRowsBytesMax / kBatchRowsMax, 'x'));
  EXPECT_GT(store_->DiskBytes(), before + many.size());
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AddSnapshotRows({5});
  MakeWhole();
  EXPECT_THAT(ReadRows(), ElementsAre("at 100", "5@100"));
}

// The last rows are written before the snapshot is said to be whole, which may fail.
TEST_F(FeedRowsTest, TheLastRowsOfASnapshotThatDidNotEndAreReplacedAsWell) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AddSnapshotRows({1});
  AppendBatch refused;
  refused.snapshot_whole = At(kSnapshotAt);
  refused.transactions = {Inserts(kSnapshotAt - 10, {2})};
  EXPECT_FALSE(feed_->Append(refused).ok());
  EXPECT_FALSE(feed_->snapshot_whole());
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AddSnapshotRows({5});
  MakeWhole();
  EXPECT_THAT(ReadRows(), ElementsAre("at 100", "5@100"));
}

TEST_F(FeedRowsTest, FoldsWhatIsSyncedAndNoMore) {
  OpenWithLog();
  Append({Inserts(110, {1, 2})});
  Fold();
  EXPECT_EQ(feed_->folded(), At(100));
  Sync();
  Append({Inserts(120, {3})});
  Fold();
  EXPECT_EQ(feed_->folded(), At(110));
  EXPECT_THAT(ReadRows(), ElementsAre("at 110", "1@110", "2@110"));
  Sync();
  Fold();
  EXPECT_THAT(ReadRows(), ElementsAre("at 120", "1@110", "2@110", "3@120"));
  const auto again = feed_->FoldOnce();
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(*again);
}

TEST_F(FeedRowsTest, GoesOnFromTheFoldedBoundaryAfterARestart) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  Sync();
  Fold();
  Append({Inserts(120, {2})});
  Sync();
  Open();
  EXPECT_EQ(feed_->folded(), At(110));
  EXPECT_THAT(ReadRows(), ElementsAre("at 110", "1@110"));
  Fold();
  EXPECT_THAT(ReadRows(), ElementsAre("at 120", "1@110", "2@120"));
}

// proves O1: a transaction larger than the fold's memory is in the rows whole, or not at all.
TEST_F(FeedRowsTest, FoldsATransactionLargerThanItsMemory) {
  OpenWithLog();
  constexpr int kRuns = 40;
  const size_t run_bytes = 3 * kFoldBytesMax / kRuns;
  for (int i = 0; i < kRuns; ++i) {
    const EncodedTransaction part = Large(1000 + i, run_bytes);
    EncodedRun run = part.runs[0];
    run.first_sequence = i;
    ASSERT_TRUE(feed_->SpoolParts(1, {schema_}, {run}).ok());
  }
  AppendBatch batch;
  batch.spooled = {{1, At(110), {}}};
  batch.transactions = {Inserts(120, {1})};
  ASSERT_TRUE(feed_->Append(batch).ok());
  Sync();
  const auto folded = feed_->FoldOnce();
  ASSERT_TRUE(folded.ok()) << folded.status();
  EXPECT_TRUE(*folded);
  EXPECT_GE(feed_->folded(), At(110));
  Fold();
  EXPECT_EQ(feed_->folded(), At(120));
  auto rows = feed_->NewRowsReader();
  ASSERT_TRUE(rows.ok());
  StoredRow row;
  int count = 0;
  while (*(*rows)->Next(&row)) ++count;
  EXPECT_EQ(count, kRuns + 1);
}

TEST_F(FeedRowsTest, WithoutRowsTheFoldOnlyMovesOn) {
  Open();
  feed_->SetRowsPolicy([](const v1::TableSchema&) { return false; });
  EXPECT_FALSE(feed_->KeepsRows(schema_));
  AppendBatch whole;
  whole.schemas = {schema_};
  whole.snapshot_whole = At(100);
  ASSERT_TRUE(feed_->Append(whole).ok());
  Append({Inserts(110, {1})});
  Sync();
  Fold();
  EXPECT_EQ(feed_->folded(), At(110));
  EXPECT_THAT(ReadRows(), ElementsAre("at 110"));
}

TEST_F(FeedRowsTest, ATableWithoutAKeyHasNoRows) {
  OpenWithLog();
  v1::TableSchema keyless = schema_;
  keyless.clear_key_columns();
  EXPECT_TRUE(feed_->KeepsRows(schema_));
  EXPECT_FALSE(feed_->KeepsRows(keyless));
}

TEST_F(FeedRowsTest, FoldsInTheBackground) {
  options_.fold_in_background = true;
  OpenWithLog();
  feed_->SetRowsPolicy([](const v1::TableSchema&) { return true; });
  Append({Inserts(110, {1})});
  Sync();
  EXPECT_TRUE(testing::WaitUntil([&] { return feed_->folded() == At(110); },
                                 std::chrono::seconds(10), [&] { return feed_->folded().Text(); }));
  EXPECT_TRUE(feed_->fold_status().ok());
  EXPECT_THAT(ReadRows(), ElementsAre("at 110", "1@110"));
}

// A run that names a change it cannot key: the fold is stuck, and says where.
TEST_F(FeedRowsTest, AStuckFoldIsReportedAndCaptureWaits) {
  options_.fold_in_background = true;
  options_.unfolded_tail_bytes_max = 100'000;
  OpenWithLog();
  v1::Change keyless = Insert(1, {TextValue("a")});
  keyless.mutable_after(0)->Clear();
  EncodedTransaction broken = Inserts(110, {});
  broken.record.set_changes(1);
  broken.runs.push_back(Run(0, {keyless}));
  Append({broken, Large(120, 200'000)});
  feed_->SetRowsPolicy([](const v1::TableSchema&) { return true; });
  Sync();
  EXPECT_TRUE(
      testing::WaitUntil([&] { return !feed_->fold_status().ok(); }, std::chrono::seconds(10)));
  const absl::Status refused = TryAppend({Inserts(130, {2})});
  EXPECT_EQ(ReasonOf(refused), reason::kFoldBehind) << refused;
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_EQ(feed_->head(), At(120));
  // What is there can be read.
  EXPECT_THAT(Positions(100), ElementsAre(110, 120));
}

TEST_F(FeedRowsTest, AnAppendThatWaitedGoesThroughOnceTheFoldCaughtUp) {
  options_.unfolded_tail_bytes_max = 100'000;
  OpenWithLog();
  Append({Large(110, 200'000)});
  Sync();
  EXPECT_EQ(ReasonOf(TryAppend({Inserts(120, {2})})), reason::kFoldBehind);
  EXPECT_GT(feed_->unfolded_bytes(), options_.unfolded_tail_bytes_max);
  Fold();
  EXPECT_EQ(feed_->unfolded_bytes(), 0u);
  Append({Inserts(120, {2})});
  EXPECT_THAT(Positions(100), ElementsAre(110, 120));
}

}  // namespace
}  // namespace tidemark::store
