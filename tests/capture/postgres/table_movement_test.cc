// Which changes of the catalog mean that rows moved without a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "capture/postgres/table_sighting.h"

namespace tidemark::capture::postgres {
namespace {

using Kind = Movement::Kind;
using Facts = v1::PostgresTableFacts;

Facts Plain() {
  Facts facts;
  facts.set_oid(100);
  facts.set_replica_identity("d");
  facts.add_key_columns("id");
  facts.set_published(true);
  facts.add_files("100:5000");
  facts.set_published_by("20:700 30:701");
  facts.set_named_xmin("10:699");
  for (const char* name : {"id", "v"}) {
    v1::PostgresColumnFacts* column = facts.add_columns();
    column->set_number(static_cast<uint32_t>(facts.columns_size()));
    column->set_name(name);
    column->set_type_oid(23);
    column->set_xmin("700");
  }
  return facts;
}

Movement After(const std::function<void(Facts*)>& change, const Facts& before = Plain()) {
  Facts now = before;
  change(&now);
  return MovementBetween(before, now);
}

TEST(TableMovementTest, NothingChangedIsNone) {
  EXPECT_EQ(MovementBetween(Plain(), Plain()).kind, Kind::kNone);
}

TEST(TableMovementTest, TruncateAndVacuumFullAreTold) {  // proves B016
  EXPECT_EQ(After([](Facts* now) { now->set_files(0, "100:5001"); }).kind, Kind::kNone);
}

TEST(TableMovementTest, ReplacedTablesMoved) {  // proves B021
  const Movement movement = After([](Facts* now) { now->set_oid(101); });
  EXPECT_EQ(movement.kind, Kind::kRead);
  EXPECT_FALSE(movement.waits_for_writers) << "nobody wrote into it beside the exchange";
  const Movement published = After([](Facts* now) {
    now->set_oid(101);
    now->set_published_by("20:700 31:710");
  });
  EXPECT_TRUE(published.waits_for_writers) << "somebody may, before it was published";
}

// There and back again.
TEST(TableMovementTest, ATableThatWasNamedAnewMoved) {  // proves B021
  EXPECT_EQ(After([](Facts* now) { now->set_named_xmin("10:720"); }).kind, Kind::kRead);
  EXPECT_EQ(After([](Facts* now) { now->set_named_xmin("11:720"); }).kind, Kind::kNone)
      << "it got another owner";
  Facts unknown = Plain();
  unknown.clear_named_xmin();
  EXPECT_EQ(MovementBetween(unknown, Plain()).kind, Kind::kNone) << "of an older server";
}

TEST(TableMovementTest, ARootOfWhichAPartitionWasNotLoggedMoved) {  // proves B014
  Facts before = Plain();
  before.set_published(false);
  before.set_unlogged_part(true);
  const Movement movement = After(
      [](Facts* now) {
        now->set_published(true);
        now->set_unlogged_part(false);
      },
      before);
  EXPECT_EQ(movement.kind, Kind::kRead);
  EXPECT_EQ(movement.cause, "changes of one of its partitions were in no log");
  EXPECT_TRUE(movement.waits_for_writers);
}

TEST(TableMovementTest, WhatNobodyFollowedMayHaveBeenAltered) {  // proves B019
  Facts now = Plain();
  EXPECT_EQ(AlteredUnseen(Plain(), now), "");
  now.mutable_columns(1)->set_xmin("800");
  EXPECT_NE(AlteredUnseen(Plain(), now), "");
  EXPECT_EQ(AlteredUnseen({}, now), "");
}

TEST(TableMovementTest, RewritesMoveTheColumnsTheyTouch) {  // proves B017
  const auto touched = [](Facts* now) { now->mutable_columns(1)->set_xmin("800"); };
  EXPECT_EQ(After(touched).kind, Kind::kNone) << "statistics, a default: no row is written";
  EXPECT_EQ(After([&](Facts* now) {
              touched(now);
              now->set_files(0, "100:5001");
            }).kind,
            Kind::kRead);
}

TEST(TableMovementTest, ColumnsMoveWithWhatTheyHold) {  // proves B019
  const auto add = [](bool with_value) {
    return [with_value](Facts* now) {
      v1::PostgresColumnFacts* column = now->add_columns();
      column->set_number(3);
      column->set_name("added");
      column->set_has_missing(with_value);
    };
  };
  EXPECT_EQ(After(add(false)).kind, Kind::kNone);
  EXPECT_EQ(After(add(true)).kind, Kind::kRead);
  EXPECT_EQ(After([&](Facts* now) {
              add(false)(now);
              now->set_files(0, "100:5001");
            }).kind,
            Kind::kRead)
      << "a volatile default rewrites the table";
  EXPECT_EQ(After([](Facts* now) { now->mutable_columns()->RemoveLast(); }).kind, Kind::kNone);
  EXPECT_EQ(After([](Facts* now) { now->mutable_columns(1)->set_name("w"); }).kind, Kind::kRead);
  EXPECT_EQ(After([](Facts* now) { now->mutable_columns(1)->set_number(3); }).kind, Kind::kRead)
      << "dropped and added under the same name";
}

// Rows that were not touched since it went are still stored with its values.
TEST(TableMovementTest, AColumnThatCameBackLaterMoved) {  // proves B019
  Facts without = Plain();
  without.mutable_columns()->RemoveLast();
  AddPastColumns(Plain(), &without);
  EXPECT_THAT(without.past_columns(), ::testing::ElementsAre("v"));
  Facts later = without;
  later.clear_past_columns();
  AddPastColumns(without, &later);
  EXPECT_THAT(later.past_columns(), ::testing::ElementsAre("v")) << "remembered from look to look";
  Facts again = Plain();
  again.mutable_columns(1)->set_number(3);
  AddPastColumns(later, &again);
  EXPECT_EQ(MovementBetween(later, again).kind, Kind::kRead);
  EXPECT_THAT(again.past_columns(), ::testing::IsEmpty());
}

// One that came and went between two looks may have been told under the name of one that stayed.
TEST(TableMovementTest, ANumberThatIsLeftOutMoves) {  // proves B019
  const auto add = [](Facts* now, const char* name, uint32_t number) {
    v1::PostgresColumnFacts* column = now->add_columns();
    column->set_name(name);
    column->set_number(number);
  };
  EXPECT_EQ(After([&](Facts* now) { add(now, "a", 3), add(now, "b", 4); }).kind, Kind::kNone);
  EXPECT_EQ(After([&](Facts* now) { add(now, "a", 4); }).kind, Kind::kRead);
  EXPECT_EQ(After([&](Facts* now) { add(now, "a", 3), add(now, "b", 5); }).kind, Kind::kRead);
}

TEST(TableMovementTest, NoMoreColumnsAreRememberedThanTheBound) {
  Facts many = Plain();
  for (int i = 0; i < kPastColumnsMax + 5; ++i) many.add_past_columns("p" + std::to_string(i));
  Facts now = Plain();
  AddPastColumns(many, &now);
  EXPECT_EQ(now.past_columns_size(), kPastColumnsMax);
  Facts added = now;
  added.add_columns()->set_name("never there");
  added.mutable_columns(2)->set_number(3);
  EXPECT_EQ(MovementBetween(now, added).kind, Kind::kRead) << "it may have been there";
}

TEST(TableMovementTest, AnotherTypeMayMakeAnotherValueOfTheSameBytes) {  // proves B017
  const auto retype = [](uint32_t type) {
    return [type](Facts* now) { now->mutable_columns(1)->set_type_oid(type); };
  };
  EXPECT_EQ(After(retype(1184)).kind, Kind::kRead) << "a timestamp gets a time zone";
  Facts text = Plain();
  text.mutable_columns(1)->set_type_oid(1043);
  EXPECT_EQ(After(retype(25), text).kind, Kind::kNone) << "a varchar becomes a text";
}

TEST(TableMovementTest, AnotherKeyIsToldAnew) {
  EXPECT_EQ(After([](Facts* now) { now->set_key_columns(0, "v"); }).kind, Kind::kReload);
  EXPECT_EQ(After([](Facts* now) { now->set_replica_identity("f"); }).kind, Kind::kNone)
      << "told apart by the same columns";
  EXPECT_EQ(After([](Facts* now) {
              now->mutable_columns(0)->set_name("number");
              now->set_key_columns(0, "number");
            }).kind,
            Kind::kRead)
      << "a key column that is only renamed";
}

TEST(TableMovementTest, WhatWasNotSentMeanwhileIsRead) {  // proves B065
  Facts left_out = Plain();
  left_out.set_published(false);
  const auto publish = [](Facts* now) { now->set_published(true); };
  const Movement movement = After(publish, left_out);
  EXPECT_EQ(movement.kind, Kind::kRead);
  EXPECT_TRUE(movement.waits_for_writers);
  EXPECT_EQ(After([](Facts* now) { now->add_published_columns("id"); }).kind, Kind::kRead);
}

// Out of the publication and in again, another row filter, an operation left out for a moment.
TEST(TableMovementTest, APublicationThatWasChangedMayHaveLeftRowsOut) {  // proves B065
  const Movement movement = After([](Facts* now) { now->set_published_by("20:700 31:710"); });
  EXPECT_EQ(movement.kind, Kind::kRead);
  EXPECT_TRUE(movement.waits_for_writers);
  Facts unknown = Plain();
  unknown.clear_published_by();
  EXPECT_EQ(MovementBetween(unknown, Plain()).kind, Kind::kNone) << "of an older server";
}

TEST(TableMovementTest, PartitionsMoveAsAWhole) {  // proves B014, B016
  Facts root = Plain();
  root.set_partitioned(true);
  root.add_files("200:6000:900");
  EXPECT_EQ(MovementBetween(root, root).kind, Kind::kNone);
  EXPECT_EQ(After([](Facts* now) { now->add_files("300:7000:900"); }, root).cause,
            "it got or lost partitions");
  EXPECT_EQ(After([](Facts* now) { now->mutable_files()->RemoveLast(); }, root).kind, Kind::kRead);
  EXPECT_EQ(After([](Facts* now) { now->set_files(1, "200:6001:900"); }, root).cause,
            "a partition was truncated or rewritten");
  EXPECT_EQ(After([](Facts* now) { now->set_files(1, "200:6000:901"); }, root).cause,
            "a partition was detached and attached again")
      << "on its own, its changes are not sent";
}

// It may be gone before anybody looks, and its rows stay.
TEST(TableMovementTest, APartitionThatOnlyTheStreamKnowsMoves) {  // proves B014, B015
  Facts root = Plain();
  root.set_partitioned(true);
  root.set_files(0, "200:6000:900");
  Facts streamed = root;
  EXPECT_FALSE(NotePart(200, &streamed)) << "a look saw it";
  EXPECT_TRUE(NotePart(30, &streamed));
  EXPECT_FALSE(NotePart(30, &streamed));
  EXPECT_EQ(MovementBetween(streamed, root).cause, "it got or lost partitions");
  Facts seen = root;
  seen.add_files("30:7000:910");
  EXPECT_EQ(MovementBetween(streamed, seen).kind, Kind::kRead);
  EXPECT_TRUE(HasParts(root, std::vector<uint32_t>{200}));
  EXPECT_FALSE(HasParts(root, std::vector<uint32_t>{20}));
  EXPECT_FALSE(HasParts(root, std::vector<uint32_t>{200, 300}));
  EXPECT_FALSE(HasParts(streamed, std::vector<uint32_t>{30, 200}));
}

}  // namespace
}  // namespace tidemark::capture::postgres
