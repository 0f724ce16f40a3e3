#include "capture/poll/tombstone_indexes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"

namespace tidemark::capture::poll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kByStamp[] = R"(CREATE INDEX CONCURRENTLY ON "public"."gone" ("at", "shop", "id");)";
constexpr char kByKey[] = R"(CREATE INDEX CONCURRENTLY ON "public"."gone" ("shop", "id", "at");)";

std::vector<std::string> Remedies(const std::vector<std::vector<std::string>>& indexes) {
  const TombstoneTable tombstones{
      .schema = "public", .table = "gone", .cursor = "at", .key = {"shop", "id"}};
  std::vector<std::string> remedies;
  for (const Finding& finding : MissingTombstoneIndexes(tombstones, indexes, "public.orders")) {
    EXPECT_EQ(finding.severity, Finding::Severity::kWarning);
    EXPECT_EQ(finding.reason, reason::kCursorIndexMissing);
    remedies.push_back(finding.remedy);
  }
  return remedies;
}

// proves A14
TEST(TombstoneIndexesTest, OneByTheStampAndOneByTheKeyAreNeeded) {
  EXPECT_THAT(Remedies({}), ElementsAre(kByStamp, kByKey));
  EXPECT_THAT(Remedies({{"at", "shop", "id"}}), ElementsAre(kByKey));
  EXPECT_THAT(Remedies({{"at"}, {"id", "shop"}}), IsEmpty()) << "in any order";
  EXPECT_THAT(Remedies({{"shop", "id", "at"}, {"note", "at"}}), ElementsAre(kByStamp));
  EXPECT_THAT(Remedies({{"at"}, {"shop"}, {"shop", "at", "id"}}), ElementsAre(kByKey));
}

}  // namespace
}  // namespace tidemark::capture::poll
