// A feed that is dropped: nothing of it is left, nothing of another is touched, and a crash between
// the note and the removal ends in a store without it.
#include <gmock/gmock.h>

#include "rocksdb/iterator.h"
#include "store/database.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FeedRemovalTest : public StoreFixture {
 protected:
  // With something in every family.
  void FillFeed() {
    ASSERT_NO_FATAL_FAILURE(OpenWithLog());
    Append({Inserts(110, {1, 2}), Inserts(120, {3})});
    ASSERT_TRUE(feed_->SpoolParts(7, {schema_}, {Run(0, {Insert(9, {TextValue("big")})})}).ok());
    AppendBatch batch;
    SpooledCommit commit{7, At(130), {}};
    commit.record.set_changes(1);
    commit.record.add_schema_ids(schema_.schema_id());
    batch.spooled.push_back(commit);
    batch.checkpoint = CheckpointAt(130);
    batch.table_states.emplace_back().set_table_name("t");
    ASSERT_TRUE(feed_->Append(batch).ok());
    Sync();
    Fold();
  }

  // Keys in all families but meta, and in meta those that belong to a feed; the store is closed.
  size_t KeysOfFeeds() {
    StoreOptions options = options_;
    options.read_only = true;
    auto database = Database::Open(options);
    EXPECT_TRUE(database.ok()) << database.status();
    size_t keys = 0;
    for (auto* family : {(*database)->log(), (*database)->spool(), (*database)->rows(),
                         (*database)->schemas(), (*database)->meta()}) {
      const std::unique_ptr<rocksdb::Iterator> at(
          (*database)->rocks()->NewIterator(rocksdb::ReadOptions(), family));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        const std::string key = at->key().ToString();
        const bool of_the_store =
            family == (*database)->meta() && (key == FormatKey() || key == NextFeedIdKey());
        if (!of_the_store) ++keys;
      }
    }
    return keys;
  }
};

// proves S26
TEST_F(FeedRemovalTest, NothingIsLeftOfIt) {
  FillFeed();
  const std::string identity = feed_->record().identity();
  ASSERT_TRUE(feed_->BeginDrop(std::nullopt).ok());
  const absl::Status removed = feed_->Remove();
  ASSERT_TRUE(removed.ok()) << removed;
  EXPECT_THAT(*store_->FeedNames(), IsEmpty());
  EXPECT_FALSE(*feed_->FoldOnce());
  EXPECT_TRUE(feed_->Trim({}, absl::Now(), std::nullopt).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->FindFeed(kFeedName).status()));
  Close();
  EXPECT_EQ(KeysOfFeeds(), 0);
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_NE(feed_->record().identity(), identity);
  EXPECT_FALSE(feed_->snapshot_whole());
  EXPECT_EQ(feed_->checkpoint().snapshot_phase(), v1::SNAPSHOT_PHASE_UNSPECIFIED);
}

TEST_F(FeedRemovalTest, AnotherFeedStaysAsItWas) {
  FillFeed();
  FeedStore* const gone = feed_;
  const auto other = store_->OpenFeed("other", "poll");
  ASSERT_TRUE(other.ok());
  feed_ = *other;
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  AppendBatch batch;
  batch.schemas = {schema_};
  batch.snapshot_whole = At(kSnapshotAt);
  batch.checkpoint = CheckpointAt(kSnapshotAt);
  ASSERT_TRUE(feed_->Append(batch).ok());
  Append({Inserts(110, {1})});
  Sync();
  Fold();
  ASSERT_TRUE(gone->Remove().ok());
  EXPECT_THAT(*store_->FeedNames(), ElementsAre("other"));
  EXPECT_THAT(Positions(100), ElementsAre(110));
  EXPECT_EQ(ReadRows().size(), 2);
  EXPECT_EQ(*store_->FindFeed("other"), feed_);
}

TEST_F(FeedRemovalTest, ReadersThatAreOpenReadOn) {
  FillFeed();
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  StoredRun run;
  ASSERT_TRUE(*(*reader)->Next(&run));
  ASSERT_TRUE(feed_->Remove().ok());
  EXPECT_FALSE(feed_->NewLogReader(At(100)).ok());
}

TEST_F(FeedRemovalTest, ADropThatIsNotedIsFinishedByTheNextOpening) {
  FillFeed();
  ASSERT_TRUE(feed_->BeginDrop(std::nullopt).ok());
  Close();
  auto opened = Store::Open(options_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(*(*opened)->FeedNames(), IsEmpty());
  EXPECT_THAT(*(*opened)->Drops(), IsEmpty());
  opened->reset();
  EXPECT_EQ(KeysOfFeeds(), 0);
}

TEST_F(FeedRemovalTest, ADropThatWasTakenBackIsNone) {
  FillFeed();
  ASSERT_TRUE(feed_->BeginDrop(v1::PostgresCheckpoint()).ok());
  ASSERT_TRUE(feed_->CancelDrop().ok());
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_THAT(Positions(100), ElementsAre(110, 120, 130));
  EXPECT_THAT(*store_->Drops(), IsEmpty());
}

// What may be left at the source is known until a feed of that name takes it over.
TEST_F(FeedRemovalTest, WhatIsLeftAtTheSourceIsTheNextFeeds) {
  FillFeed();
  v1::PostgresCheckpoint left;
  left.set_slot("tidemark_orders");
  left.set_database("shop");
  ASSERT_TRUE(feed_->BeginDrop(left).ok());
  Close();
  for (int i = 0; i < 2; ++i) {
    auto opened = Store::Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto drops = *(*opened)->Drops();
    ASSERT_EQ(drops.count(kFeedName), 1);
    EXPECT_EQ(drops.at(kFeedName).left().slot(), "tidemark_orders");
  }
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(feed_->checkpoint().snapshot_phase(), v1::SNAPSHOT_PHASE_PREPARING);
  EXPECT_EQ(feed_->checkpoint().postgres().slot(), "tidemark_orders");
  EXPECT_FALSE(feed_->snapshot_whole());
  EXPECT_THAT(*store_->Drops(), IsEmpty());
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(feed_->checkpoint().postgres().slot(), "tidemark_orders");
}

TEST_F(FeedRemovalTest, WhatIsLeftCanBeForgotten) {
  FillFeed();
  v1::PostgresCheckpoint left;
  left.set_slot("tidemark_orders");
  ASSERT_TRUE(feed_->BeginDrop(left).ok());
  Close();
  auto opened = Store::Open(options_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE((*opened)->ForgetDrop(kFeedName).ok());
  opened->reset();
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_FALSE(feed_->checkpoint().has_postgres());
}

}  // namespace
}  // namespace tidemark::store
