#include "capture/postgres/reading_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/capture/postgres/memory_rows.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TableChunk Chunk(std::vector<std::string> lines, bool at_end) {
  return {.relation = SampleRelation(), .lines = std::move(lines), .at_end = at_end};
}

v1::TableReading Fresh() {
  v1::TableReading reading;
  reading.set_fresh(true);
  return reading;
}

TEST(ReadingProgressTest, GoesOnBehindTheLastRow) {
  v1::TableReading reading = Fresh();
  AdvanceReading(Chunk({}, false), false, &reading);
  EXPECT_THAT(reading.after_key(), IsEmpty());
  AdvanceReading(Chunk({"1\t10\tx", "2\t20\tx"}, false), false, &reading);
  EXPECT_THAT(reading.after_key(), ElementsAre("2"));
  EXPECT_EQ(reading.rows_read(), 2u);
  EXPECT_FALSE(reading.done() || reading.removing());
  AdvanceReading(Chunk({"3\t30\tx"}, true), false, &reading);
  EXPECT_THAT(reading.after_key(), ElementsAre("3"));
  EXPECT_EQ(reading.rows_read(), 3u);
  EXPECT_TRUE(reading.done());
}

TEST(ReadingProgressTest, LooksForRemovedRowsWhereAnyWereKnown) {
  v1::TableReading reading;
  AdvanceReading(Chunk({"3\t30\tx"}, true), false, &reading);
  EXPECT_TRUE(reading.removing());
  EXPECT_FALSE(reading.done());
}

// proves H4: a row that moved out of the last chunk is known rightly by its key only.
TEST(ReadingProgressTest, DoesNotEndWhileRowsAreToBeReadByTheirKeys) {
  for (const bool fresh : {true, false}) {
    v1::TableReading reading;
    reading.set_fresh(fresh);
    AdvanceReading(Chunk({"3\t30\tx"}, true), true, &reading);
    EXPECT_THAT(reading.after_key(), ElementsAre("3"));
    EXPECT_FALSE(reading.done() || reading.removing());
    // Nothing lies behind that row, once those are read.
    AdvanceReading(Chunk({}, true), false, &reading);
    EXPECT_THAT(reading.after_key(), ElementsAre("3"));
    EXPECT_EQ(reading.done(), fresh);
    EXPECT_EQ(reading.removing(), !fresh);
  }
}

}  // namespace
}  // namespace tidemark::capture::postgres
