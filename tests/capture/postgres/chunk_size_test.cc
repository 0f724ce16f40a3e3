// As many rows at a time as nobody notices.
#include "capture/postgres/chunk_size.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

class ChunkSizeTest : public ::testing::Test {
 protected:
  void TakeLong(int times) {
    for (int i = 0; i < times; ++i) size_.Took(10 * kChunkTakesMax, now_);
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  ChunkSize size_;
};

// proves H4
TEST_F(ChunkSizeTest, FewRowsWhereCommitsWaitForThem) {
  size_.Committed(now_);
  TakeLong(1);
  EXPECT_EQ(size_.rows(), kChunkRowsMax / 10);
  TakeLong(5);
  EXPECT_EQ(size_.rows(), kChunkRowsFew);
  size_.Took(kChunkTakesMax / 2, now_);
  EXPECT_EQ(size_.rows(), 2 * kChunkRowsFew);
}

TEST_F(ChunkSizeTest, ManyWhereNothingIsCommitted) {
  TakeLong(3);
  EXPECT_EQ(size_.rows(), kChunkRowsMax);
  size_.Committed(now_);
  TakeLong(5);
  EXPECT_EQ(size_.rows(), kChunkRowsFew);
  now_ += kQuietFor;
  TakeLong(10);
  EXPECT_EQ(size_.rows(), kChunkRowsMax);
}

TEST_F(ChunkSizeTest, MoreBehindAStreamThatIsBehind) {
  size_.Committed(now_);
  size_.WaitedForFence(kFenceWaitLong * 2);
  TakeLong(10);
  EXPECT_EQ(size_.rows(), kChunkRowsBehindMax);
  size_.WaitedForFence(absl::ZeroDuration());
  TakeLong(1);
  EXPECT_EQ(size_.rows(), kChunkRowsMax);
}

TEST_F(ChunkSizeTest, HalfWhereTheRowsAreNotLeftAlone) {
  size_.NotLeftAlone();
  EXPECT_EQ(size_.rows(), kChunkRowsMax / 2);
  for (int i = 0; i < 20; ++i) size_.NotLeftAlone();
  EXPECT_EQ(size_.rows(), kChunkRowsMin);
}

}  // namespace
}  // namespace tidemark::capture::postgres
