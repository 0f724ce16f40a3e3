#include "client/change_view.h"

#include <gtest/gtest.h>

#include "tests/testing/written_records.h"

namespace tidemark::client {
namespace {

using testing::AccountChange;
using testing::AccountSchema;

TEST(ChangeViewTest, FindsColumnsByNameInTheImageThatTheOpHas) {
  const v1::TableSchema schema = AccountSchema();
  const v1::Change insert = AccountChange(v1::OP_INSERT, 0, 7, "Ann");
  const ChangeView inserted(schema, "0A", 3, insert);
  EXPECT_EQ(inserted.Column("owner")->text(), "Ann");
  EXPECT_EQ(inserted.Column("absent"), nullptr);
  EXPECT_EQ(inserted.table(), "public.account");
  EXPECT_EQ(inserted.Key().at(0)->integer(), 7);

  v1::Change removal = AccountChange(v1::OP_DELETE, 0, 7);
  const ChangeView removed(schema, "0A", 3, removal);
  EXPECT_EQ(removed.Column("id")->integer(), 7);
  EXPECT_EQ(removed.Column("owner"), nullptr);
  EXPECT_EQ(removed.Key().at(0)->integer(), 7);
  *removal.add_before() = testing::Integer(7);
  *removal.add_before() = testing::Text("Ann");
  EXPECT_EQ(ChangeView(schema, "0A", 3, removal).Column("owner")->text(), "Ann");

  const v1::Change truncate = AccountChange(v1::OP_TRUNCATE, 0, 0);
  EXPECT_TRUE(ChangeView(schema, "0A", 3, truncate).Key().empty());
}

TEST(ChangeViewTest, TellsAbsentFromNull) {
  const v1::TableSchema schema = AccountSchema();
  v1::Change update = AccountChange(v1::OP_UPDATE, 0, 7, "Ann");
  update.mutable_after(1)->set_null(v1::NULL_VALUE_UNSPECIFIED);
  EXPECT_TRUE(IsNull(*ChangeView(schema, "0A", 0, update).Column("owner")));
  update.mutable_after(1)->Clear();
  EXPECT_EQ(ChangeView(schema, "0A", 0, update).Column("owner"), nullptr);
}

TEST(ChangeViewTest, ShowsARowAsReadWithThePositionThatWroteIt) {
  const v1::TableSchema schema = AccountSchema();
  v1::Row row;
  row.set_position("0B");
  row.set_sequence(9);
  *row.add_values() = testing::Integer(7);
  *row.add_values() = testing::Text("Ann");
  const ChangeView view(schema, row);
  EXPECT_EQ(view.op(), v1::OP_READ);
  EXPECT_EQ(view.position(), "0B");
  EXPECT_EQ(view.sequence(), 9u);
  EXPECT_EQ(view.Column("owner")->text(), "Ann");
  EXPECT_TRUE(view.before().empty());
}

}  // namespace
}  // namespace tidemark::client
