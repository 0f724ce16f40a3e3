#include "capture/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TablePattern Pattern(const std::string& text) { return *TablePattern::Parse(text); }

// Nothing compared must not look like nothing found.
TEST(VerificationTest, RefusesAnOrderThatNamesNothing) {  // proves A52
  EXPECT_TRUE(CheckSelected({}, {}, true).ok());
  EXPECT_TRUE(CheckSelected({Pattern("public.t")}, {true}, true).ok());
  EXPECT_TRUE(CheckSelected({Pattern("public.t"), Pattern("old.*")}, {true, false}, true).ok());
  const absl::Status unknown =
      CheckSelected({Pattern("public.t"), Pattern("public.u")}, {true, false}, true);
  EXPECT_EQ(ReasonOf(unknown), reason::kTableUnknown);
  EXPECT_THAT(unknown.message(), HasSubstr("no table public.u"));
  EXPECT_EQ(ReasonOf(CheckSelected({}, {}, false)), reason::kTableUnknown);
  EXPECT_EQ(ReasonOf(CheckSelected({Pattern("old.*")}, {false}, false)), reason::kTableUnknown);
}

TEST(VerificationTest, TellsWhatNobodyToldFromWhatDiffers) {  // proves A52
  v1::VerifyTotals totals;
  v1::VerifyResponse both;
  EXPECT_EQ(CountDifferent({{"a", true}, {"b", false}}, &totals, &both),
            v1::DIFFERENCE_KIND_DIFFERENT);
  EXPECT_THAT(both.columns(), ElementsAre("b"));
  EXPECT_THAT(both.absent_columns(), ElementsAre("a"));
  v1::VerifyResponse absent;
  EXPECT_EQ(CountDifferent({{"a", true}}, &totals, &absent), v1::DIFFERENCE_KIND_INCOMPLETE);
  EXPECT_EQ(totals.different(), 1u);
  EXPECT_EQ(totals.incomplete(), 1u);
}

TEST(VerificationTest, EndsATableWithItsTotalsAndWhy) {
  v1::VerifyTotals totals;
  totals.set_rows_compared(9);
  const v1::VerifyResponse whole =
      EndOfTable("public.t", totals, absl::OkStatus(), absl::FromUnixSeconds(5));
  EXPECT_EQ(whole.table(), "public.t");
  EXPECT_TRUE(whole.last());
  EXPECT_EQ(whole.rows_compared(), 9u);
  EXPECT_EQ(whole.totals().rows_compared(), 9u);
  EXPECT_FALSE(whole.has_error());
  const v1::VerifyResponse failed =
      EndOfTable("public.t", totals, VerificationCutOff(), absl::FromUnixSeconds(5));
  EXPECT_EQ(failed.error().reason(), reason::kSourceUnreachable);
  EXPECT_EQ(failed.error().at().seconds(), 5);
}

}  // namespace
}  // namespace tidemark::capture
