// The row of a key as it stands after everything that was appended, folded or not.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "store/identity_key.h"
#include "store/row_value.h"
#include "tests/store/store_fixture.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::store {
namespace {

class TailRowsTest : public StoreFixture {
 protected:
  void AppendChanges(uint64_t position, const std::vector<v1::Change>& changes) {
    EncodedTransaction transaction;
    transaction.position = At(position);
    transaction.runs = {Run(0, changes)};
    transaction.record.set_bytes(transaction.runs[0].bytes.size());
    transaction.record.set_changes(changes.size());
    Append({transaction});
    Sync();
  }

  // "none", or text@position.sequence.
  std::string Find(int64_t id) {
    std::string key;
    EXPECT_TRUE(AppendIdentityValue(IntegerValue(id).SerializeAsString(), &key).ok());
    const auto row = feed_->FindRow(schema_, key);
    EXPECT_TRUE(row.ok()) << row.status();
    if (!row.ok()) return "error";
    if (!row->has_value()) return "none";
    const auto decoded = DecodeRow(**row);
    v1::Row message;
    EXPECT_TRUE(decoded && message.ParseFromString(std::string(decoded->values)));
    return fmt::format("{}@{}.{}", message.values(1).has_text() ? message.values(1).text() : "-",
                       decoded->position.engine_low(), decoded->sequence);
  }
};

TEST_F(TailRowsTest, LooksIntoTheTailThenIntoTheRows) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  v1::Change read = Insert(1, {TextValue("snapshot")});
  read.set_op(v1::OP_READ);
  ASSERT_TRUE(feed_->AddSnapshotRows({schema_}, {Run(0, {read})}).ok());
  EXPECT_EQ(Find(1), "none");
  AppendBatch whole;
  whole.snapshot_whole = At(kSnapshotAt);
  whole.checkpoint = CheckpointAt(kSnapshotAt);
  ASSERT_TRUE(feed_->Append(whole).ok());
  EXPECT_EQ(Find(1), "snapshot@100.0");
  AppendChanges(110, {Insert(2, {TextValue("a")}), Update(1, {TextValue("b")})});
  EXPECT_EQ(Find(1), "b@110.1");
  EXPECT_EQ(Find(2), "a@110.0");
  AppendChanges(120, {Delete(1), Update(2, {TextValue("c")})});
  EXPECT_EQ(Find(1), "none");
  EXPECT_EQ(Find(2), "c@120.1");
  EXPECT_EQ(Find(3), "none");
  EXPECT_EQ(feed_->folded(), At(100)) << "looking folds nothing";
  Fold();
  EXPECT_EQ(Find(1), "none");
  EXPECT_EQ(Find(2), "c@120.1");
  AppendChanges(130, {Truncate(), Insert(3, {TextValue("d")})});
  EXPECT_EQ(Find(2), "none");
  EXPECT_EQ(Find(3), "d@130.1");
}

TEST_F(TailRowsTest, WhatIsFoldedAndTrimmedMeanwhileIsInTheRows) {
  OpenWithLog();
  AppendChanges(110, {Insert(1, {TextValue("a")})});
  AppendChanges(120, {Insert(2, {TextValue("b")})});
  EXPECT_EQ(Find(1), "a@110.0");
  Fold();
  // A tail again, so that the index of the old one stays.
  AppendChanges(130, {Insert(3, {TextValue("c")})});
  RetentionBounds none;
  none.bytes = 0;
  ASSERT_TRUE(feed_->Trim(none, absl::Now(), std::nullopt).ok());
  EXPECT_EQ(Find(1), "a@110.0");
  EXPECT_EQ(Find(2), "b@120.0");
  EXPECT_EQ(Find(3), "c@130.0");
}

TEST_F(TailRowsTest, LooksIntoLargeTransactions) {
  OpenWithLog();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        feed_->SpoolParts(1, {schema_}, {Run(i, {Update(1, {TextValue(std::to_string(i))})})})
            .ok());
  }
  EXPECT_EQ(Find(1), "none") << "it has not committed";
  AppendBatch batch;
  batch.spooled = {{1, At(110), {}}};
  uint64_t bytes = 0;
  auto reader = feed_->NewSpoolReader(1);
  ASSERT_TRUE(reader.ok()) << reader.status();
  SpooledRun run;
  std::vector<uint64_t> sequences;
  while (*(*reader)->Next(&run)) {
    bytes += run.bytes.size();
    sequences.push_back(run.first_sequence);
    EXPECT_EQ(feed_->ReadSpooled(1, run.first_sequence, 0).value(), run.bytes);
  }
  EXPECT_EQ(sequences, (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_TRUE(absl::IsNotFound(feed_->ReadSpooled(1, 7, 0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(feed_->ReadSpooled(9, 0, 0).status()));
  reader->reset();
  batch.spooled[0].record.set_bytes(bytes);
  ASSERT_TRUE(feed_->Append(batch).ok());
  EXPECT_EQ(Find(1), "2@110.2");
}

// As an older server left it: the row before is in the rows, the change in the tail says less.
TEST_F(TailRowsTest, WhatTheTailDoesNotSayTheFoldDoes) {
  OpenWithLog();
  AppendChanges(110, {Insert(1, {TextValue("a")})});
  Fold();
  AppendChanges(120, {Update(1, {AbsentValue()})});
  EXPECT_EQ(Find(1), "a@120.0");
  EXPECT_EQ(feed_->folded(), At(120));
}

TEST_F(TailRowsTest, ATableWithoutRowsHasNone) {
  OpenWithLog();
  AppendChanges(110, {Insert(1, {TextValue("a")})});
  feed_->SetRowsPolicy([](const v1::TableSchema&) { return false; });
  EXPECT_EQ(Find(1), "none");
}

}  // namespace
}  // namespace tidemark::store
