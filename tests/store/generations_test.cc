// The generations of a feed and the gaps between them, over appends, restarts and refusals.
#include "store/generations.h"

#include <gmock/gmock.h>

#include <utility>

#include "store/log_dump.h"
#include "store/verify.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class GenerationsTest : public StoreFixture {
 protected:
  static Position In(uint32_t generation, uint64_t engine) {
    return Position::Of(generation, engine);
  }
  static AppendBatch GapBatch(const Position& from, const Position& to) {
    AppendBatch batch;
    v1::GapRecord& gap = batch.gap.emplace();
    gap.set_from(std::string(from.bytes()));
    gap.set_to(std::string(to.bytes()));
    gap.set_reason("SLOT_LOST");
    gap.set_detail("as the test wants it");
    batch.checkpoint.emplace().set_position(std::string(to.bytes()));
    batch.checkpoint->set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
    return batch;
  }
  absl::Status AppendAt(const Position& position, const std::vector<int64_t>& ids) {
    AppendBatch batch;
    batch.schemas = {schema_};
    batch.transactions = {Inserts(position.engine_low(), ids)};
    batch.transactions.back().position = position;
    batch.checkpoint.emplace().set_position(std::string(position.bytes()));
    return feed_->Append(batch);
  }
  std::vector<std::string> Gaps(const Position& after, const Position& upto) const {
    std::vector<std::string> lines;
    for (const Gap& gap : feed_->GapsBetween(after, upto)) {
      lines.push_back(gap.record.reason() + " " + std::to_string(gap.to.generation()));
    }
    return lines;
  }
};

// proves R33, B055: the next generation and its gap are on disk in one step with the checkpoint.
TEST_F(GenerationsTest, TheNextOneBeginsBehindAGapAndStaysOverRestarts) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  EXPECT_EQ(feed_->generation(), 1u);
  // The source's log may have gone back.
  ASSERT_TRUE(feed_->Append(GapBatch(At(110), In(2, 50))).ok());
  ASSERT_TRUE(AppendAt(In(2, 60), {2}).ok());
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(feed_->generation(), 2u);
    EXPECT_EQ(feed_->head(), In(2, 60));
    EXPECT_EQ(feed_->EndOfGeneration(1), At(110));
    EXPECT_EQ(feed_->EndOfGeneration(2), std::nullopt);
    EXPECT_EQ(feed_->BeginOfGeneration(1), std::nullopt);
    EXPECT_EQ(feed_->BeginOfGeneration(2), In(2, 50));
    EXPECT_EQ(feed_->EndOfGeneration(3), std::nullopt);
    EXPECT_THAT(Gaps(At(100), In(2, 60)), ElementsAre("SLOT_LOST 2"));
    EXPECT_THAT(Gaps(At(110), In(2, 50)), ElementsAre("SLOT_LOST 2"));
    EXPECT_THAT(Gaps(At(110), In(2, 49)), IsEmpty());
    EXPECT_THAT(Gaps(In(2, 50), In(2, 60)), IsEmpty());
    EXPECT_THAT(Gaps(At(100), At(110)), IsEmpty());
    EXPECT_EQ(feed_->Gaps().size(), 1u);
    EXPECT_THAT(Positions(100), ElementsAre(110, 60));
    Open();
  }
}

TEST_F(GenerationsTest, GapsAddUp) {
  OpenWithLog();
  ASSERT_TRUE(feed_->Append(GapBatch(At(100), In(2, 50))).ok());
  ASSERT_TRUE(feed_->Append(GapBatch(In(2, 50), In(3, 70))).ok());
  EXPECT_THAT(Gaps(At(100), In(3, 70)), ElementsAre("SLOT_LOST 2", "SLOT_LOST 3"));
  EXPECT_THAT(Gaps(In(2, 50), In(3, 70)), ElementsAre("SLOT_LOST 3"));
  EXPECT_EQ(feed_->EndOfGeneration(2), In(2, 50));
  Sync();
  Fold();
  EXPECT_EQ(feed_->folded(), In(3, 70));
}

// proves A30: where nothing is missing, a generation begins without a gap, and the feed has another
// kind of source from there on.
TEST_F(GenerationsTest, OneBeginsWithoutAGapWhereNothingIsMissing) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  AppendBatch moved = GapBatch(At(110), In(2, 5000));
  moved.gap->clear_reason();
  moved.checkpoint->mutable_changelog();
  ASSERT_TRUE(feed_->Append(moved).ok());
  ASSERT_TRUE(AppendAt(In(2, 6000), {2}).ok());
  for (int life = 0; life < 2; ++life) {
    EXPECT_EQ(feed_->generation(), 2u);
    EXPECT_EQ(feed_->EndOfGeneration(1), At(110));
    EXPECT_EQ(feed_->BeginOfGeneration(2), In(2, 5000));
    EXPECT_THAT(Gaps(At(100), In(2, 6000)), IsEmpty());
    EXPECT_THAT(feed_->Gaps(), IsEmpty());
    Close();
    auto opened = Store::Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    EXPECT_FALSE(store_->OpenFeed(kFeedName, "postgres").ok());
    auto feed = store_->OpenFeed(kFeedName, "changelog");
    ASSERT_TRUE(feed.ok()) << feed.status();
    feed_ = *feed;
  }
}

TEST_F(GenerationsTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  const AppendBatch fits = GapBatch(At(110), In(2, 50));
  AppendBatch not_the_head = GapBatch(At(109), In(2, 50));
  AppendBatch too_far = GapBatch(At(110), In(3, 50));
  AppendBatch back = GapBatch(At(110), At(120));
  AppendBatch elsewhere = fits;
  elsewhere.checkpoint->set_position(std::string(In(2, 51).bytes()));
  AppendBatch with_more = fits;
  with_more.schemas = {schema_};
  with_more.transactions = {Inserts(60, {2})};
  for (const AppendBatch& batch : {not_the_head, too_far, back, elsewhere, with_more}) {
    EXPECT_TRUE(absl::IsInvalidArgument(feed_->Append(batch)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(AppendAt(In(2, 60), {2}))) << "no gap leads there";
  EXPECT_EQ(feed_->generation(), 1u);
  EXPECT_EQ(feed_->head(), At(110));
  EXPECT_THAT(feed_->Gaps(), IsEmpty());
  ASSERT_TRUE(feed_->Append(fits).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(AppendAt(At(120), {2}))) << "that generation is closed";
}

TEST_F(GenerationsTest, RowsAndRetentionGoOnBehindTheGap) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  ASSERT_TRUE(feed_->Append(GapBatch(At(110), In(2, 50))).ok());
  ASSERT_TRUE(AppendAt(In(2, 60), {2}).ok());
  Sync();
  Fold();
  EXPECT_THAT(ReadRows(), ElementsAre(HasSubstr("60"), StartsWith("1@"), StartsWith("2@")));
  ASSERT_TRUE(feed_->Trim({.age = absl::Hours(100000), .bytes = 1}, absl::Now(), {}).ok());
  EXPECT_GT(feed_->floor(), At(110));
  EXPECT_EQ(feed_->EndOfGeneration(1), At(110)) << "cursors of then are still told apart";
}

TEST_F(GenerationsTest, TheOfflineToolShowsAndChecksThem) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  ASSERT_TRUE(feed_->Append(GapBatch(At(110), In(2, 50))).ok());
  ASSERT_TRUE(AppendAt(In(2, 60), {2}).ok());
  Sync();
  Fold();
  Close();
  DumpOptions dump;
  dump.store = options_;
  std::vector<std::string> lines;
  ASSERT_TRUE(DumpLog(dump, [&](std::string_view line) { lines.emplace_back(line); }).ok());
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("gap"), HasSubstr("SLOT_LOST"))));
  std::vector<std::string> findings;
  const auto checked = VerifyStore(
      {.store = options_}, [&](const Finding& finding) { findings.push_back(finding.text); });
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(findings, IsEmpty());
}

}  // namespace
}  // namespace tidemark::store
