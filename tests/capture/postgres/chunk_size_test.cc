// As many rows at a time as nobody notices.
#include "capture/postgres/chunk_size.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

class ChunkSizeTest : public ::testing::Test {
 protected:
  void TakeLong(int times) {
    for (int i = 0; i < times; ++i) size_.Took(10 * kTellingTakesMax, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  ChunkSize size_;
};

// proves H4
TEST_F(ChunkSizeTest, FewRowsAreToldWhereCommitsWaitForThem) {
  size_.Committed(now_);
  TakeLong(1);
  EXPECT_EQ(size_.rows_told(), kChunkRowsMax / 10);
  TakeLong(5);
  EXPECT_EQ(size_.rows_told(), kRowsToldFew);
  size_.Took(kTellingTakesMax / 2, now_);
  EXPECT_EQ(size_.rows_told(), 2 * kRowsToldFew);
  EXPECT_EQ(size_.rows_read(), kRowsReadMax);
}

TEST_F(ChunkSizeTest, ManyWhereNothingIsCommitted) {
  TakeLong(3);
  EXPECT_EQ(size_.rows_told(), kChunkRowsMax);
  size_.Committed(now_);
  TakeLong(5);
  EXPECT_EQ(size_.rows_told(), kRowsToldFew);
  now_ += kQuietFor;
  TakeLong(10);
  EXPECT_EQ(size_.rows_told(), kChunkRowsMax);
}

// proves H4
TEST_F(ChunkSizeTest, TheStreamHasItsTurnBetweenRowsThatAreTold) {
  EXPECT_EQ(size_.told_due(), absl::InfinitePast());
  const absl::Duration took = absl::Milliseconds(1);
  size_.Took(took, now_);
  const absl::Duration quiet = size_.told_due() - now_;
  EXPECT_GT(quiet, absl::ZeroDuration());
  size_.Committed(now_);
  size_.Took(took, now_);
  EXPECT_GE(size_.told_due() - now_, 2 * took);
  EXPECT_LT(quiet, took);
}

TEST_F(ChunkSizeTest, MoreBehindAStreamThatIsBehind) {
  size_.Committed(now_);
  size_.LeftAlone(kFenceWaitLong * 2);
  TakeLong(10);
  EXPECT_EQ(size_.rows_read(), kChunkRowsBehindMax);
  EXPECT_EQ(size_.rows_told(), kChunkRowsBehindMax);
  size_.LeftAlone(absl::ZeroDuration());
  TakeLong(1);
  EXPECT_EQ(size_.rows_read(), kRowsReadMax);
  EXPECT_LE(size_.rows_told(), kChunkRowsMax);
}

TEST_F(ChunkSizeTest, HalfAreReadWhereTheRowsAreNotLeftAlone) {
  size_.NotLeftAlone();
  EXPECT_EQ(size_.rows_read(), kRowsReadMax / 2);
  for (int i = 0; i < 20; ++i) size_.NotLeftAlone();
  EXPECT_EQ(size_.rows_read(), kRowsReadMin);
  size_.LeftAlone(absl::ZeroDuration());
  EXPECT_EQ(size_.rows_read(), 2 * kRowsReadMin);
}

}  // namespace
}  // namespace tidemark::capture::postgres
