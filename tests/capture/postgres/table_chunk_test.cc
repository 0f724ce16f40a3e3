#include "capture/postgres/table_chunk.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

constexpr uint64_t kBlock = 8192;
constexpr uint64_t kSegment = 16 << 20;

// proves K7: behind the header of a page nothing was written, and nothing will be for long.
TEST(TableChunkTest, AFenceIsTheEndOfARecord) {
  const Lsn segment = 2 * kSegment;
  EXPECT_EQ(RecordEndBefore(segment + 0x28, kBlock, kSegment), segment);
  EXPECT_EQ(RecordEndBefore(segment + kBlock + 0x18, kBlock, kSegment), segment + kBlock);
  for (const Lsn end : {segment + 0x60, segment + kBlock + 0x28, segment + kBlock + 0x30,
                        segment + kBlock, segment}) {
    EXPECT_EQ(RecordEndBefore(end, kBlock, kSegment), end);
  }
}

// A standby shows what a commit did before it counts the commit as replayed.
TEST(TableChunkTest, TheFenceOfAStandbyLiesBehindWhatItMayBeReplaying) {
  EXPECT_EQ(StandbyFence(true, 0x100, 0x100), 0x100u) << "there is nothing more";
  EXPECT_EQ(StandbyFence(true, 0x100, 0x180), 0x180u) << "from an archive, before it received";
  EXPECT_EQ(StandbyFence(true, 0x180, 0x100), 0x101u) << "the end of the next record, wherever";
  EXPECT_EQ(StandbyFence(false, 0x100, 0x100), 0x101u) << "it reads what nobody sent";
  EXPECT_EQ(StandbyFence(false, 0, 0x100), 0x101u);
}

}  // namespace
}  // namespace tidemark::capture::postgres
