#include "capture/postgres/moved_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const MovedRows::Table kT{"public", "t"};
const MovedRows::Table kU{"public", "u"};

TEST(MovedRowsTest, AreKeptUntilTheyAreRead) {  // proves H4
  MovedRows moved;
  EXPECT_FALSE(moved.Watches(kT));
  moved.Watch({kT, kU});
  moved.Add(kT, {"1", "a"});
  moved.Add(kT, {"2", "b"});
  moved.Add(kT, {"1", "a"});
  EXPECT_TRUE(moved.Has(kT));
  EXPECT_FALSE(moved.Has(kU));
  EXPECT_THAT(moved.Next(kT, 1), ElementsAre(ElementsAre("1", "a")));
  EXPECT_THAT(moved.Next(kT, 9), ElementsAre(ElementsAre("1", "a"), ElementsAre("2", "b")));
  moved.Remove(kT, moved.Next(kT, 1));
  EXPECT_THAT(moved.Next(kT, 9), ElementsAre(ElementsAre("2", "b")));
  moved.Watch({kT});
  EXPECT_TRUE(moved.Has(kT)) << "it is watched on";
  moved.Watch({kU});
  moved.Watch({kT});
  EXPECT_FALSE(moved.Has(kT)) << "all of it was read meanwhile, or is to be read";
}

// proves H4: what was read may be of the time before the second one came.
TEST(MovedRowsTest, ARowThatMovesThereMeanwhileIsReadOnceMore) {
  MovedRows moved;
  moved.Watch({kT});
  moved.Add(kT, {"1"});
  moved.Add(kT, {"2"});
  const auto asked = moved.Next(kT, 9);
  moved.Add(kT, {"1"});
  moved.Remove(kT, asked);
  EXPECT_TRUE(moved.Has(kT));
  EXPECT_THAT(moved.TakeNews(), ElementsAre(kT));
  const auto again = moved.Next(kT, 9);
  EXPECT_THAT(again, ElementsAre(ElementsAre("1")));
  moved.Remove(kT, again);
  EXPECT_FALSE(moved.Has(kT));
}

TEST(MovedRowsTest, TellATableThatGotItsFirst) {
  MovedRows moved;
  moved.Watch({kT, kU});
  EXPECT_THAT(moved.TakeNews(), IsEmpty());
  moved.Add(kT, {"1"});
  EXPECT_THAT(moved.TakeNews(), ElementsAre(kT));
  moved.Add(kT, {"2"});
  EXPECT_THAT(moved.TakeNews(), IsEmpty());
  moved.Remove(kT, moved.Next(kT, 9));
  moved.Add(kT, {"3"});
  EXPECT_THAT(moved.TakeNews(), ElementsAre(kT));
}

TEST(MovedRowsTest, AreBounded) {
  MovedRows moved;
  moved.Watch({kT, kU});
  moved.AddAny(kU);
  EXPECT_TRUE(moved.HasTooMany(kU));
  for (size_t i = 0; i < kMovedRowsMax; ++i) moved.Add(kT, {std::to_string(i)});
  EXPECT_FALSE(moved.HasTooMany(kT));
  moved.TakeNews();
  moved.Add(kT, {"one more"});
  EXPECT_TRUE(moved.HasTooMany(kT) && moved.Has(kT));
  EXPECT_THAT(moved.Next(kT, 9), IsEmpty());
  EXPECT_THAT(moved.TakeNews(), ElementsAre(kT));
  moved.Add(kT, {"and one"});
  EXPECT_THAT(moved.Next(kT, 9), IsEmpty());
}

}  // namespace
}  // namespace tidemark::capture::postgres
