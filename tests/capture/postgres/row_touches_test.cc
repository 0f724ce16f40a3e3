#include "capture/postgres/row_touches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/capture/postgres/memory_rows.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const MovedRows::Table kTable{"public", "t"};
constexpr TupleColumn kUnchanged{ColumnKind::kUnchanged, {}};
constexpr TupleColumn kNull{ColumnKind::kNull, {}};

TupleColumn Said(std::string_view text) { return {ColumnKind::kText, text}; }

class RowTouchesTest : public ::testing::Test {
 protected:
  RowTouchesTest() { window_.Open(); }

  // A change of a row (id, a, note), as the stream tells it.
  void Change(const std::vector<TupleColumn>& row, const std::vector<TupleColumn>& old_row = {},
              bool rows_known = false) {
    const RowTuples tuples{row, old_row};
    TouchWindow(relation_, tuples, rows_known, known_, moved_, &encoder_, &window_);
    if (!old_row.empty()) NoteMove(relation_, tuples, &moved_);
  }
  // nullopt: not touched.
  std::optional<std::vector<uint32_t>> LeftOut(int64_t id) const {
    const ChunkWindow::Touched* touched = window_.Find(MemoryRows::KeyText(id));
    if (touched == nullptr) return std::nullopt;
    return touched->left_out;
  }
  bool Spoiled() { return !window_.Holds(*XidSnapshot::Parse("10:10:")); }

  const Relation relation_ = SampleRelation();
  MemoryRows known_;
  ChunkWindow window_;
  MovedRows moved_;
  RowEncoder encoder_;
};

// proves H4, B001: also before anything of the table was read.
TEST_F(RowTouchesTest, AChangeThatLeavesAValueOutSaysWhichOne) {
  Change({Said("1"), Said("11"), kUnchanged});
  Change({Said("2"), Said("22"), Said("x")});
  Change({Said("3"), kNull, kUnchanged});
  EXPECT_THAT(*LeftOut(1), ElementsAre(2));
  EXPECT_THAT(*LeftOut(2), IsEmpty());
  EXPECT_THAT(*LeftOut(3), ElementsAre(2));
  EXPECT_EQ(LeftOut(4), std::nullopt);
  EXPECT_EQ(window_.Find(MemoryRows::KeyText(1))->schema_id, relation_.shape.schema_id);
  EXPECT_FALSE(Spoiled());
}

TEST_F(RowTouchesTest, ALaterChangeMayTellAllOfIt) {
  Change({Said("1"), Said("11"), kUnchanged});
  Change({Said("1"), Said("12"), Said("x")});
  EXPECT_THAT(*LeftOut(1), IsEmpty());
  // A delete has the key alone.
  Change({Said("2"), Said("21"), kUnchanged});
  Change({Said("2"), kNull, kNull});
  EXPECT_THAT(*LeftOut(2), IsEmpty());
}

// Under replica identity full.
TEST_F(RowTouchesTest, WhatTheRowBeforeSaysIsNotLeftOut) {
  Change({Said("1"), Said("11"), kUnchanged}, {Said("1"), Said("10"), Said("x")});
  EXPECT_THAT(*LeftOut(1), IsEmpty());
  EXPECT_FALSE(Spoiled());
}

// A verification looks at rows that are known rightly.
TEST_F(RowTouchesTest, NothingIsLeftOutWhereAllIsKnown) {
  Change({Said("1"), Said("11"), kUnchanged}, {}, /*rows_known=*/true);
  Change({Said("3"), Said("21"), kUnchanged}, {Said("2"), kNull, kNull}, /*rows_known=*/true);
  EXPECT_THAT(*LeftOut(1), IsEmpty());
  EXPECT_THAT(*LeftOut(2), IsEmpty());
  EXPECT_THAT(*LeftOut(3), IsEmpty());
  EXPECT_FALSE(Spoiled());
}

// proves H4, B005: to be read by the key that it has now, whatever the chunk says of that.
TEST_F(RowTouchesTest, ARowThatTakesAValueAlongIsNoted) {
  moved_.Watch({kTable});
  Change({Said("3"), Said("21"), kUnchanged}, {Said("2"), kNull, kNull});
  Change({Said("3"), Said("22"), kUnchanged});
  EXPECT_FALSE(Spoiled());
  EXPECT_THAT(*LeftOut(2), IsEmpty());
  EXPECT_THAT(*LeftOut(3), IsEmpty()) << "what the chunk has there may be another row";
  EXPECT_THAT(moved_.Next(kTable, 9), ElementsAre(ElementsAre("3")));
}

TEST_F(RowTouchesTest, ARowThatMovesWithAllItsValuesIsNotNoted) {
  moved_.Watch({kTable});
  Change({Said("3"), Said("21"), Said("x")}, {Said("2"), kNull, kNull});
  EXPECT_FALSE(moved_.Has(kTable));
  EXPECT_FALSE(Spoiled());
}

// Beside the first chunk of a table nobody notes it.
TEST_F(RowTouchesTest, ARowThatMovesUnnotedSpoilsTheChunk) {
  Change({Said("3"), Said("21"), kUnchanged}, {Said("2"), kNull, kNull});
  EXPECT_TRUE(Spoiled());
}

TEST_F(RowTouchesTest, AKeyThatNobodySaysIsAnyKey) {
  moved_.Watch({kTable});
  Change({kUnchanged, Said("21"), kUnchanged}, {kNull, kNull, kNull});
  EXPECT_TRUE(moved_.HasTooMany(kTable));
}

}  // namespace
}  // namespace tidemark::capture::postgres
