#include "capture/owned_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OwnedObjectsTest, AreNamedWithWhatDropsThem) {
  v1::Checkpoint checkpoint;
  EXPECT_THAT(OwnedObjects(checkpoint), IsEmpty());
  checkpoint.mutable_postgres()->set_database("shop");
  checkpoint.mutable_postgres()->set_slot("tidemark_shop");
  checkpoint.mutable_postgres()->set_publication("theirs");
  EXPECT_THAT(OwnedObjects(checkpoint),
              ElementsAre("slot tidemark_shop of database shop: SELECT "
                          "pg_drop_replication_slot('tidemark_shop')",
                          "publication theirs in database shop, which was not made for the feed: "
                          "DROP PUBLICATION \"theirs\""));
  checkpoint.mutable_postgres()->set_publication_made(true);
  EXPECT_EQ(OwnedObjects(checkpoint).back(),
            "publication theirs in database shop: DROP PUBLICATION \"theirs\"");
}

TEST(OwnedObjectsTest, OfAMoveToTheLogOnlyWhileItIsUnderWay) {
  v1::Checkpoint checkpoint;
  checkpoint.mutable_poll();
  v1::MigrationRecord* const move = checkpoint.mutable_migration();
  move->mutable_postgres()->set_database("shop");
  move->set_slot("tidemark_shop");
  EXPECT_THAT(OwnedObjects(checkpoint), IsEmpty());
  move->set_phase(v1::MIGRATION_PHASE_PREPARED);
  EXPECT_THAT(OwnedObjects(checkpoint), ElementsAre("slot tidemark_shop of database shop: SELECT "
                                                    "pg_drop_replication_slot('tidemark_shop')"));
}

}  // namespace
}  // namespace tidemark::capture
