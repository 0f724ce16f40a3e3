// Where a feed goes on in the log that was polled until then.
#include "capture/migration/switch_place.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tidemark::capture {
namespace {

using postgres::XidSnapshot;

constexpr postgres::Lsn kFrom = 1000;

std::optional<XidSnapshot> Seen(const std::string& text) {
  return XidSnapshot::Parse(text).value();
}

void ExpectPlace(const std::vector<SlotCommit>& commits, const std::optional<XidSnapshot>& seen,
                 postgres::Lsn at, bool exact) {
  const SwitchPlace place = PlaceOfSwitch(kFrom, commits, seen);
  EXPECT_EQ(place.at, at);
  EXPECT_EQ(place.exact, exact);
}

// proves A30, A46: neither a gap nor a repeat.
TEST(SwitchPlaceTest, LiesBehindWhatThePollSawAndBeforeWhatItDidNot) {
  const std::vector<SlotCommit> commits = {{100, 1100}, {103, 1200}, {101, 1300}, {104, 1400}};
  ExpectPlace({}, Seen("100:100:"), kFrom, true);
  ExpectPlace(commits, Seen("110:110:"), 1400, true);
  ExpectPlace(commits, Seen("101:104:101"), 1200, true);
  ExpectPlace(commits, Seen("100:100:"), kFrom, true);
  // 103 committed behind 100 in the log, and the snapshot sees it alone.
  ExpectPlace(commits, Seen("100:104:100,101"), 1200, false);
  ExpectPlace(commits, Seen("100:110:103"), 1400, false);
}

TEST(SwitchPlaceTest, LiesBehindEverythingWhereItIsNotKnownWhatThePollSaw) {
  ExpectPlace({{100, 1100}, {101, 1200}}, std::nullopt, 1200, false);
  ExpectPlace({}, std::nullopt, kFrom, true);
}

// proves A30: whatever committed when, nothing that was seen lies behind the place; and where it is
// exact, nothing before it was not.
TEST(SwitchPlaceTest, HoldsForAnyOrderOfCommits) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SlotCommit> commits;
    for (uint32_t i = 0; i < random() % 12; ++i) {
      commits.push_back({static_cast<uint32_t>(100 + random() % 20), kFrom + 10 * (i + 1)});
    }
    std::string running;
    for (uint32_t xid = 105; xid < 112; ++xid) {
      if (random() % 2 == 0) running += (running.empty() ? "" : ",") + std::to_string(xid);
    }
    const auto seen = Seen("105:112:" + running);
    const SwitchPlace place = PlaceOfSwitch(kFrom, commits, seen);
    for (const SlotCommit& commit : commits) {
      if (seen->Sees(commit.xid)) {
        EXPECT_LE(commit.end, place.at);
      } else if (place.exact) {
        EXPECT_GT(commit.end, place.at);
      }
    }
  }
}

TEST(SwitchPlaceTest, WhatWasSeenWithoutAGapCanBePassedOver) {
  const std::vector<SlotCommit> commits = {{100, 1100}, {103, 1200}, {101, 1300}, {104, 1400}};
  const auto expect_passed = [&](const std::optional<XidSnapshot>& seen, postgres::Lsn at,
                                 bool exact) {
    const SwitchPlace place = PlaceBeforeMore(kFrom, commits, seen);
    EXPECT_EQ(place.at, at);
    EXPECT_EQ(place.exact, exact);
  };
  expect_passed(Seen("110:110:"), 1400, true);
  expect_passed(Seen("101:104:101"), 1200, true);
  expect_passed(Seen("101:110:101"), 1200, true);  // 104 lies behind 101.
  // Else it would stand there for ever.
  expect_passed(Seen("100:104:100,101"), 1400, false);
  expect_passed(std::nullopt, 1400, false);
  EXPECT_EQ(PlaceBeforeMore(kFrom, {}, Seen("100:100:")).at, kFrom);
}

// proves K7
TEST(SwitchPlaceTest, NoFlushComesToTheHeaderOfAnEmptyPage) {
  EXPECT_EQ(FlushedWhenAll(0x3000018), 0x3000000u);
  EXPECT_EQ(FlushedWhenAll(0x3000028), 0x3000000u);
  EXPECT_EQ(FlushedWhenAll(0x3000000), 0x3000000u);
  EXPECT_EQ(FlushedWhenAll(0x3000030), 0x3000030u);
}

}  // namespace
}  // namespace tidemark::capture
