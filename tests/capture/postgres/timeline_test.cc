#include "capture/postgres/timeline.h"

#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// As a server writes it that was promoted twice, with what people and tools put between.
constexpr char kHistory[] =
    "# restored on Monday\n"
    "1\t0/5002480\tno recovery target specified\n"
    "\n"
    "2\t1/A0\tbefore 2026-03-01 12:00:00+00\n";

TimelineVerdict Verdict(uint32_t timeline, Lsn captured, uint32_t present) {
  return JudgeTimeline(timeline, captured, present, *ParseTimelineHistory(kHistory)).verdict;
}

TEST(TimelineTest, ReadsAHistoryFile) {
  const auto history = ParseTimelineHistory(kHistory);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->size(), 2u);
  EXPECT_EQ(history->at(0).timeline, 1u);
  EXPECT_EQ(history->at(0).left_at, 0x5002480u);
  EXPECT_EQ(history->at(1).timeline, 2u);
  EXPECT_EQ(history->at(1).left_at, 0x1000000A0u);
  EXPECT_TRUE(ParseTimelineHistory("")->empty());
  EXPECT_EQ(ParseTimelineHistory("3\t0/10").value().at(0).left_at, 0x10u) << "no line end, no why";
  for (const char* text :
       {"one\t0/10", "1", "1\tzero", "1x 0/10", "2\t0/10\n1\t0/20", "-1\t0/10"}) {
    EXPECT_EQ(ReasonOf(ParseTimelineHistory(text).status()), reason::kSourceProtocol) << text;
  }
}

// proves S48, B067: what was captured is part of the new history up to the very place at which that
// left the old one, and not a byte further.
TEST(TimelineTest, NothingIsUndoneUpToWhereTheTimelineWasLeft) {
  EXPECT_EQ(Verdict(1, 0x5002480 - 1, 3), TimelineVerdict::kGoesOn);
  EXPECT_EQ(Verdict(1, 0x5002480, 3), TimelineVerdict::kGoesOn);
  EXPECT_EQ(Verdict(1, 0x5002480 + 1, 3), TimelineVerdict::kDiverged);
  EXPECT_EQ(Verdict(2, 0x5002480 + 1, 3), TimelineVerdict::kGoesOn);
  EXPECT_EQ(Verdict(2, 0x1000000A1, 3), TimelineVerdict::kDiverged);
  EXPECT_EQ(JudgeTimeline(1, 0x6000000, 3, *ParseTimelineHistory(kHistory)).left_at, 0x5002480u);
}

TEST(TimelineTest, AnUnknownHistoryIsNotTakenForTheSame) {  // proves S48
  EXPECT_EQ(Verdict(3, 0x10, 3), TimelineVerdict::kSame);
  EXPECT_EQ(JudgeTimeline(1, 0x10, 1, {}).verdict, TimelineVerdict::kSame);
  // The old primary, or a sibling.
  EXPECT_EQ(Verdict(4, 0x10, 3), TimelineVerdict::kUnknown);
  EXPECT_EQ(JudgeTimeline(2, 0x10, 1, {}).verdict, TimelineVerdict::kUnknown);
  EXPECT_EQ(JudgeTimeline(1, 0x10, 2, {}).verdict, TimelineVerdict::kUnknown);
}

}  // namespace
}  // namespace tidemark::capture::postgres
