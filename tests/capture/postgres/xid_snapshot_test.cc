#include "capture/postgres/xid_snapshot.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

TEST(XidSnapshotTest, SeesWhatHadEnded) {  // proves B073
  const auto snapshot = XidSnapshot::Parse("100:105:100,103");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  for (const uint32_t seen : {3u, 99u, 101u, 102u, 104u}) EXPECT_TRUE(snapshot->Sees(seen)) << seen;
  for (const uint32_t unseen : {100u, 103u, 105u, 4000u}) {
    EXPECT_FALSE(snapshot->Sees(unseen)) << unseen;
  }
}

// The stream gives 32 bits, the snapshot 64.
TEST(XidSnapshotTest, KnowsTheEpoch) {  // proves B073
  // 2^32 + 10 and 2^32 + 14.
  const auto snapshot = XidSnapshot::Parse("4294967306:4294967310:4294967306");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_TRUE(snapshot->Sees(4294967290u)) << "of the epoch before";
  EXPECT_TRUE(snapshot->Sees(9));
  EXPECT_FALSE(snapshot->Sees(10));
  EXPECT_TRUE(snapshot->Sees(11));
  EXPECT_FALSE(snapshot->Sees(14));
  EXPECT_FALSE(snapshot->Sees(100));
}

TEST(XidSnapshotTest, NothingInProgress) {
  const auto snapshot = XidSnapshot::Parse("7:7:");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_TRUE(snapshot->Sees(6));
  EXPECT_FALSE(snapshot->Sees(7));
}

TEST(XidSnapshotTest, IsItsTextAndBack) {
  for (const std::string text :
       {"1:1:", "740:745:740,743", "4294967296:9007199254740993:9007199254740992"}) {
    const auto snapshot = XidSnapshot::Parse(text);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ(snapshot->Text(), text);
  }
}

TEST(XidSnapshotTest, EndsEarlier) {
  const XidSnapshot snapshot = *XidSnapshot::Parse("740:750:740,743,748");
  EXPECT_EQ(snapshot.EndingAt(760).Text(), "740:750:740,743,748");
  EXPECT_EQ(snapshot.EndingAt(746).Text(), "740:746:740,743");
  EXPECT_EQ(snapshot.EndingAt(740).Text(), "740:740:");
}

TEST(XidSnapshotTest, RefusesOtherText) {
  for (const char* text : {"", "7", "7:", "a:b:", "7:8:x", "7:8:9;10", "7,8", "8:7:", "-1:2:"}) {
    const auto snapshot = XidSnapshot::Parse(text);
    if (snapshot.ok()) {
      EXPECT_STREQ(text, "7:8") << "was taken";
    } else {
      EXPECT_EQ(ReasonOf(snapshot.status()), reason::kSourceProtocol);
    }
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
