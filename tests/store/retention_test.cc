// What retention may trim, as a decision and as done to a log.
#include "store/retention.h"

#include <gmock/gmock.h>

#include "proto/reason.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time Seconds(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

RetentionFacts Facts() {
  RetentionFacts facts;
  facts.bounds = {absl::Seconds(100), 1000};
  facts.now = Seconds(10'000);
  facts.log_bytes = 5000;
  facts.keep_from = Position::Of(1, 500);
  return facts;
}

LogSample Sample(int64_t commit_seconds, uint64_t log_bytes) {
  return {commit_seconds * 1'000'000, log_bytes};
}

TEST(RetentionTest, TrimsByAgeOrByBytesWhicheverComesFirst) {
  const Position at = Position::Of(1, 300);
  EXPECT_TRUE(MayTrim(at, Sample(9'899, 4'999), Facts()));   // too old
  EXPECT_FALSE(MayTrim(at, Sample(9'900, 4'999), Facts()));  // exactly as old as allowed
  EXPECT_TRUE(MayTrim(at, Sample(9'999, 4'000), Facts()));   // what is left still fills the bytes
  EXPECT_FALSE(MayTrim(at, Sample(9'999, 4'001), Facts()));  // what is left would be below them
}

TEST(RetentionTest, NeverPassesWhatIsKept) {
  EXPECT_TRUE(MayTrim(Position::Of(1, 500), Sample(0, 0), Facts()));
  EXPECT_FALSE(MayTrim(Position::Of(1, 501), Sample(0, 0), Facts()));
  EXPECT_EQ(KeepFrom(Position::Of(1, 500), std::nullopt), Position::Of(1, 500));
  EXPECT_EQ(KeepFrom(Position::Of(1, 500), Position::Of(1, 400)), Position::Of(1, 400));
  EXPECT_EQ(KeepFrom(Position::Of(1, 500), Position::Of(1, 600)), Position::Of(1, 500));
}

TEST(RetentionTest, AClockOfTheSourceThatIsAheadDoesNotKeepTheLogForEver) {
  LogSampler sampler;
  sampler.Add(/*commit_time_us=*/int64_t{1} << 60, /*bytes=*/10, /*clock_us=*/500);
  EXPECT_EQ(sampler.now().newest_commit_time_us, 500);
}

TEST(RetentionTest, SamplesOncePerStretchOfBytes) {
  LogSampler sampler;
  int samples = 0;
  for (int i = 0; i < 40; ++i) samples += sampler.Add(i, kSampleBytes / 10, 1000) ? 1 : 0;
  EXPECT_NEAR(samples, 4, 1);
  EXPECT_EQ(sampler.now().log_bytes, 40 * (kSampleBytes / 10));
  EXPECT_EQ(sampler.now().newest_commit_time_us, 39);
}

class TrimTest : public StoreFixture {
 protected:
  static constexpr uint64_t kNoBytesBound = UINT64_MAX;

  EncodedTransaction InsertAt(uint64_t position, absl::Time time) {
    EncodedTransaction transaction = Inserts(position, {static_cast<int64_t>(position)});
    SetCommitTime(&transaction, time);
    return transaction;
  }

  void Trim(const RetentionBounds& bounds, absl::Time now,
            std::optional<Position> keep_from = std::nullopt) {
    const absl::Status status = feed_->Trim(bounds, now, keep_from);
    ASSERT_TRUE(status.ok()) << status;
  }
};

// proves A09: by age, whole transactions, to the transaction.
TEST_F(TrimTest, TrimsByAge) {
  OpenWithLog();
  Append(
      {InsertAt(110, Seconds(1000)), InsertAt(120, Seconds(2000)), InsertAt(130, Seconds(3000))});
  Sync();
  Fold();
  Trim({absl::Seconds(100), kNoBytesBound}, Seconds(2050));
  EXPECT_EQ(feed_->floor(), At(110));
  EXPECT_EQ(feed_->log_transactions(), 2);
  EXPECT_EQ(feed_->floor_commit_time_us(), 1'000'000'000);
  EXPECT_THAT(Positions(110), ElementsAre(120, 130));
  EXPECT_THAT(ReadLog(109), ElementsAre(reason::kCursorExpired));
  Trim({absl::Seconds(100), kNoBytesBound}, Seconds(9000));
  EXPECT_EQ(feed_->floor(), At(130));
  EXPECT_EQ(feed_->log_bytes(), 0);
  EXPECT_EQ(feed_->log_transactions(), 0);
  EXPECT_THAT(Positions(130), IsEmpty());
  Append({InsertAt(140, Seconds(9000))});
  EXPECT_THAT(Positions(130), ElementsAre(140));
}

TEST_F(TrimTest, AnOldTransactionBehindAYoungOneStays) {
  OpenWithLog();
  // Commit times are not ordered; positions are.
  Append(
      {InsertAt(110, Seconds(1000)), InsertAt(120, Seconds(3000)), InsertAt(130, Seconds(1000))});
  Sync();
  Fold();
  Trim({absl::Seconds(100), kNoBytesBound}, Seconds(2050));
  EXPECT_THAT(Positions(110), ElementsAre(120, 130));
}

TEST_F(TrimTest, TrimsByBytesOverManySamples) {
  OpenWithLog();
  constexpr size_t kTransactionBytes = 100'000;
  for (uint64_t position = 101; position <= 200; ++position) {
    Append({Large(position, kTransactionBytes)});
  }
  Sync();
  Fold();
  EXPECT_EQ(feed_->log_transactions(), 100);
  EXPECT_NEAR(static_cast<double>(feed_->log_bytes()), 100 * kTransactionBytes, 100 * 500);
  const uint64_t behind = feed_->BytesBehind(At(150));
  EXPECT_NEAR(static_cast<double>(behind), 50 * kTransactionBytes, 1.2 * kSampleBytes);
  EXPECT_EQ(feed_->BytesBehind(feed_->head()), 0);

  Trim({absl::InfiniteDuration(), 3'000'000}, absl::Now());
  EXPECT_LE(feed_->log_bytes(), 3'000'000 + kTransactionBytes + 500);
  EXPECT_GE(feed_->log_bytes(), 3'000'000);
  const uint64_t floor = feed_->floor().engine_low();
  EXPECT_EQ(Positions(floor).size(), 200 - floor);
  EXPECT_EQ(feed_->log_transactions(), 200 - floor);

  // What is left after a restart is the same.
  const uint64_t bytes = feed_->log_bytes();
  Open();
  EXPECT_EQ(feed_->floor(), At(floor));
  EXPECT_EQ(feed_->log_bytes(), bytes);
  EXPECT_EQ(feed_->log_transactions(), 200 - floor);
  EXPECT_EQ(Positions(floor).size(), 200 - floor);
}

TEST_F(TrimTest, GivesTheDiskSpaceBack) {
  OpenWithLog();
  for (uint64_t position = 101; position <= 164; ++position) Append({Large(position, 1 << 20)});
  Sync();
  Fold();
  // Reopening moves what is in memory into files.
  Open();
  const uint64_t before = store_->DiskBytes();
  Trim({absl::ZeroDuration(), kNoBytesBound}, absl::InfiniteFuture());
  Open();
  EXPECT_LT(store_->DiskBytes() + (uint64_t{32} << 20), before);
}

// proves A09: never beyond the fold, nor what a bootstrap still reads.
TEST_F(TrimTest, NeverPassesTheFoldOrABootstrap) {
  OpenWithLog();
  Append({InsertAt(110, Seconds(1)), InsertAt(120, Seconds(2))});
  Sync();
  const RetentionBounds nothing{absl::ZeroDuration(), 0};
  Trim(nothing, Seconds(9000));
  EXPECT_EQ(feed_->floor(), At(100));
  Fold();
  Append({InsertAt(130, Seconds(3))});
  Trim(nothing, Seconds(9000), At(115));
  EXPECT_EQ(feed_->floor(), At(110));
  Trim(nothing, Seconds(9000));
  EXPECT_EQ(feed_->floor(), At(120));
  EXPECT_THAT(Positions(120), ElementsAre(130));
}

TEST_F(TrimTest, ReaderBelowTheFloorIsToldSo) {
  OpenWithLog();
  Append({InsertAt(110, Seconds(1)), InsertAt(120, Seconds(2))});
  Sync();
  Fold();
  auto at_start = feed_->NewLogReader(At(100));
  auto at_head = feed_->NewLogReader(At(100));
  ASSERT_TRUE(at_start.ok() && at_head.ok());
  EXPECT_EQ(Drain(at_head->get()).size(), 2);
  Trim({absl::ZeroDuration(), kNoBytesBound}, Seconds(9000));
  EXPECT_THAT(Drain(at_start->get()), ElementsAre(reason::kCursorExpired));
  // One that has read everything that is trimmed goes on.
  Append({InsertAt(130, Seconds(3))});
  EXPECT_EQ(Drain(at_head->get()).size(), 1);
  StoredRun run;
  EXPECT_EQ(ReasonOf((*at_start)->Next(&run).status()), reason::kCursorExpired);
  const auto details = DetailsOf(feed_->NewLogReader(At(100)).status());
  EXPECT_EQ(details.at("floor"), At(120).Text());
}

TEST_F(TrimTest, BeforeTheSnapshotIsWholeThereIsNothingToTrim) {
  Open();
  Trim({absl::ZeroDuration(), 0}, absl::Now());
  EXPECT_EQ(feed_->floor(), Position());
}

}  // namespace
}  // namespace tidemark::store
