#include "capture/postgres/streamed_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tidemark::capture::postgres {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

constexpr uint32_t kInt = 23;
constexpr uint32_t kText = 25;
constexpr uint32_t kVarchar = 1043;
constexpr uint32_t kTimestamp = 1114;
constexpr uint32_t kTimestampTz = 1184;

using Columns = std::vector<std::pair<std::string, uint32_t>>;

// Everything happens behind what came before, but for AnnounceAt.
class StreamedShapesTest : public ::testing::Test {
 protected:
  void Announce(const Columns& columns) { AnnounceAt(++clock_, columns); }
  void AnnounceAt(Lsn commit, const Columns& columns) {
    RelationDescription description{.oid = 7, .schema_name = "public", .table_name = "t"};
    for (const auto& [name, type] : columns) description.columns.push_back({name, type});
    shapes_.Announced(description, commit);
  }
  std::string Look(const Columns& columns, const std::vector<std::string>& published = {}) {
    v1::PostgresTableFacts facts;
    facts.set_oid(7);
    for (const auto& [name, type] : columns) {
      v1::PostgresColumnFacts* column = facts.add_columns();
      column->set_name(name);
      column->set_type_oid(type);
    }
    facts.mutable_published_columns()->Add(published.begin(), published.end());
    return shapes_.Seen({"public", "t"}, facts, ++clock_);
  }

  Lsn clock_ = 100;
  StreamedShapes shapes_;
};

const Columns kPlain = {{"id", kInt}, {"a", kText}};

TEST_F(StreamedShapesTest, ColumnsThatComeAndGoMoveNothing) {
  EXPECT_EQ(Look(kPlain), "");
  Announce(kPlain);
  EXPECT_EQ(Look(kPlain), "");
  Announce({{"id", kInt}, {"a", kText}, {"b", kInt}});
  EXPECT_EQ(Look({{"id", kInt}, {"a", kText}, {"b", kInt}}), "");
  Announce({{"id", kInt}});
  EXPECT_EQ(Look({{"id", kInt}}), "");
  Announce({{"id", kInt}, {"a", kInt}});
  EXPECT_EQ(Look({{"id", kInt}, {"a", kInt}}), "") << "looks of their own tell of a new column";
}

// What was renamed and renamed back.
TEST_F(StreamedShapesTest, AColumnWithAnotherNameForAMoment) {
  Look(kPlain);
  Announce({{"id", kInt}, {"b", kText}});
  EXPECT_NE(Look(kPlain), "");
  EXPECT_EQ(Look(kPlain), "") << "it is said once";
  Announce(kPlain);
  EXPECT_EQ(Look(kPlain), "");
  Announce({{"id", kInt}, {"b", kText}});
  Announce(kPlain);
  EXPECT_NE(Look(kPlain), "");
}

TEST_F(StreamedShapesTest, AColumnThatCameAndWasRenamed) {
  Look(kPlain);
  Announce({{"id", kInt}, {"a", kText}, {"b", kInt}});
  EXPECT_THAT(Look({{"id", kInt}, {"a", kText}, {"c", kInt}}), HasSubstr("renamed to c"));
  Announce({{"id", kInt}, {"a", kText}, {"c", kInt}});
  EXPECT_EQ(Look({{"id", kInt}, {"a", kText}, {"c", kInt}}), "");
}

TEST_F(StreamedShapesTest, AColumnWithAnotherTypeForAMoment) {
  Look({{"id", kInt}});
  Announce({{"id", kInt}, {"c", kTimestamp}});
  EXPECT_THAT(Look({{"id", kInt}, {"c", kTimestampTz}}), HasSubstr("column c had another type"));
  Announce({{"id", kInt}, {"c", kTimestampTz}});
  EXPECT_EQ(Look({{"id", kInt}, {"c", kTimestampTz}}), "");
  Look(kPlain);
  Announce({{"id", kInt}, {"a", kVarchar}});
  EXPECT_EQ(Look(kPlain), "") << "its values read the same";
}

TEST_F(StreamedShapesTest, PartitionsAreHandedOverOnce) {
  const StreamedShapes::Name root("public", "pa");
  shapes_.PartStreamed(root, 9, 101);
  shapes_.PartStreamed(root, 8, 102);
  shapes_.PartStreamed(root, 9, 103);
  EXPECT_THAT(shapes_.TakeParts(), ::testing::ElementsAre(Pair(root, 8u), Pair(root, 9u)));
  EXPECT_THAT(shapes_.TakeParts(), ::testing::IsEmpty());
}

// A look found a partition gone, and rows of it are told later that were committed before.
TEST_F(StreamedShapesTest, PartitionsFromBeforeAReadingSayNothing) {
  const StreamedShapes::Name root("public", "pa");
  const StreamedShapes::Name other("public", "pb");
  shapes_.ReadsAgain(root, 200);
  shapes_.PartStreamed(root, 9, 199);
  shapes_.PartStreamed(other, 7, 199);
  shapes_.PartStreamed(root, 8, 200);
  EXPECT_THAT(shapes_.TakeParts(), ::testing::ElementsAre(Pair(root, 8u), Pair(other, 7u)));
}

// A look that is ahead of the stream says nothing of what the stream announces then.
TEST_F(StreamedShapesTest, AStreamThatIsBehindTellsOldShapes) {
  const Lsn before = ++clock_;
  EXPECT_EQ(Look({{"id", kInt}, {"a", kText}, {"b", kInt}}), "");
  AnnounceAt(before, kPlain);
  Announce({{"id", kInt}, {"a", kText}, {"b", kInt}});
  EXPECT_EQ(Look({{"id", kInt}, {"a", kText}, {"b", kInt}}), "");
}

TEST_F(StreamedShapesTest, ColumnsThatAreNotPublishedAreNotMissed) {
  Look(kPlain, {"id"});
  Announce({{"id", kInt}});
  EXPECT_EQ(Look(kPlain, {"id"}), "");
}

}  // namespace
}  // namespace tidemark::capture::postgres
