#include "capture/postgres/held_announcements.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace tidemark::capture::postgres {
namespace {

constexpr uint32_t kOid = 7;

// Shapes are told apart by the name of their table.
RelationDescription Shape(const std::string& name) {
  return {.oid = kOid, .schema_name = "public", .table_name = name};
}

class HeldAnnouncementsTest : public ::testing::Test {
 protected:
  // Plays the part of who applies them.
  void Announce(uint64_t sent, const std::string& name) {
    const std::optional<RelationDescription> before = shape_;
    held_.Applied(sent, kOid, before ? &*before : nullptr);
    shape_ = Shape(name);
  }
  void HoldBack(uint64_t sent, const std::string& name) { held_.HoldBack({sent, Shape(name)}); }
  // The shape of a change that comes now.
  std::string Change() {
    if (std::optional<Announcement> held = held_.Take(kOid)) {
      Announce(held->sent, held->description.table_name);
    }
    return shape_ ? shape_->table_name : "";
  }

  HeldAnnouncements held_;
  std::optional<RelationDescription> shape_;
};

TEST_F(HeldAnnouncementsTest, WhatWasRolledBackHoldsForTheRest) {
  held_.BeginReplay();
  HoldBack(1, "a");
  EXPECT_EQ(held_.Find(kOid)->table_name, "a");
  EXPECT_EQ(held_.Find(kOid + 1), nullptr);
  EXPECT_EQ(Change(), "a");
  held_.EndReplay();
  EXPECT_EQ(Change(), "a");
}

TEST_F(HeldAnnouncementsTest, WhatWasRolledBackHoldsForThoseThatFollow) {
  held_.BeginReplay();
  HoldBack(1, "a");
  held_.EndReplay();
  EXPECT_EQ(Change(), "a");
}

TEST_F(HeldAnnouncementsTest, WhatWasRolledBackGivesWayToANewOne) {
  Announce(1, "plain");
  held_.BeginReplay();
  HoldBack(2, "never");
  Announce(3, "a");
  EXPECT_EQ(Change(), "a");
  HoldBack(4, "never");
  held_.EndReplay();
  Announce(5, "b");
  EXPECT_EQ(Change(), "b");
}

TEST_F(HeldAnnouncementsTest, ANewerOneHoldsAgainBehindAReplay) {
  Announce(1, "old");
  // 2 was sent in the transaction, and is applied after this.
  Announce(3, "new");
  held_.BeginReplay();
  Announce(2, "old");
  EXPECT_EQ(Change(), "old");
  held_.EndReplay();
  EXPECT_EQ(Change(), "new");
  EXPECT_EQ(Change(), "new");
}

TEST_F(HeldAnnouncementsTest, TheNewestOfTheTransactionHoldsBehindIt) {
  Announce(1, "old");
  held_.BeginReplay();
  Announce(2, "new");
  held_.EndReplay();
  EXPECT_EQ(Change(), "new");
}

TEST_F(HeldAnnouncementsTest, OfTwoTransactionsTheOneThatWasSentLast) {
  Announce(1, "plain");
  held_.BeginReplay();
  Announce(3, "second");
  held_.EndReplay();
  // It was sent before, and commits behind.
  held_.BeginReplay();
  Announce(2, "first");
  EXPECT_EQ(Change(), "first");
  held_.EndReplay();
  EXPECT_EQ(Change(), "second");
}

TEST_F(HeldAnnouncementsTest, WhatWasRolledBackInAnOldTransactionIsOld) {
  Announce(3, "plain");
  held_.BeginReplay();
  HoldBack(2, "never");
  held_.EndReplay();
  EXPECT_EQ(Change(), "plain");
  held_.BeginReplay();
  Announce(1, "older");
  HoldBack(2, "never");
  held_.EndReplay();
  EXPECT_EQ(Change(), "plain");
}

}  // namespace
}  // namespace tidemark::capture::postgres
