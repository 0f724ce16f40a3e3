#include "server/page_token.h"

#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/server/scripted_source.h"

namespace tidemark {
namespace {

using testing::At;

TEST(PageTokenTest, ReadsBackWhatItWrote) {
  for (const InsidePosition& inside :
       {InsidePosition{At(7), 0, 0}, InsidePosition{At(7).WithOrdinal(3), uint64_t{1} << 40, 12}}) {
    const auto parsed = ParsePageToken(PageTokenText(inside));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->position, inside.position);
    EXPECT_EQ(parsed->sequence, inside.sequence);
    EXPECT_EQ(parsed->part, inside.part);
  }
}

TEST(PageTokenTest, RefusesEverythingElse) {
  const std::string good = PageTokenText({At(7), 5, 1});
  for (const std::string& text :
       {std::string(), std::string("page."), good + "g", good + ".", good.substr(1),
        good.substr(0, good.size() - 2), std::string(1 << 20, 'a'), "page." + At(7).Text() + "..",
        "page." + At(7).Text() + ".05.1", "page." + At(7).Text() + ".-5.1"}) {
    EXPECT_EQ(ReasonOf(ParsePageToken(text).status()), reason::kRequestInvalid) << text;
  }
}

TEST(PageTokenTest, TheBoundaryBeforeIsTheNextLower) {
  EXPECT_EQ(BoundaryBefore(At(7).WithOrdinal(1)), At(7));
  EXPECT_EQ(BoundaryBefore(At(7)), At(6).AfterAllOrdinals());
  EXPECT_EQ(BoundaryBefore(At(0)), Position::Of(0, std::string(12, '\xFF'), UINT32_MAX));
}

}  // namespace
}  // namespace tidemark
