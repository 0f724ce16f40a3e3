#include "capture/postgres/row_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/reason.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kInt4 = 23, kText = 25;

TupleColumn T(std::string_view text) { return {ColumnKind::kText, text}; }
const TupleColumn kNull = {ColumnKind::kNull, {}};
const TupleColumn kUnchanged = {ColumnKind::kUnchanged, {}};

// t(id int4, a int4, big text) with key columns of one's choice.
RowShape Shape(std::vector<uint32_t> key_columns) {
  const TypeCatalog catalog;
  return {.schema_id = 0xABCD,
          .table_name = "public.t",
          .types = {catalog.Resolve(kInt4), catalog.Resolve(kInt4), catalog.Resolve(kText)},
          .column_names = {"id", "a", "big"},
          .key_columns = std::move(key_columns)};
}

class RowEncoderTest : public ::testing::Test {
 protected:
  RowEncoderTest() { builder_.Begin(); }

  std::vector<v1::Change> Changes() {
    std::vector<v1::Change> changes;
    for (const EncodedRun& run : builder_.Finish(Position(), {}).runs) {
      v1::Run parsed;
      EXPECT_TRUE(parsed.ParseFromString(run.bytes));
      EXPECT_EQ(parsed.SerializeAsString(), run.bytes);
      EXPECT_EQ(parsed.schema_ids(0), 0xABCDu);
      changes.insert(changes.end(), parsed.changes().begin(), parsed.changes().end());
    }
    return changes;
  }

  TransactionBuilder builder_;
  RowEncoder encoder_;
};

TEST_F(RowEncoderTest, InsertHasOneValueForEachColumn) {
  const std::vector<TupleColumn> row = {T("1"), kNull, T("x")};
  ASSERT_TRUE(encoder_.AddInsert(Shape({0}), {.row = row}, &builder_).ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].op(), v1::OP_INSERT);
  ASSERT_EQ(changes[0].after_size(), 3);
  EXPECT_EQ(changes[0].after(0).integer(), 1);
  EXPECT_TRUE(changes[0].after(1).has_null());
  EXPECT_EQ(changes[0].after(2).text(), "x");
  EXPECT_EQ(changes[0].before_size() + changes[0].key_size(), 0);
}

// proves R44, B001: unchanged is absent, which is not NULL …
TEST_F(RowEncoderTest, UnchangedToastIsAbsent) {
  const std::vector<TupleColumn> row = {T("1"), T("2"), kUnchanged};
  ASSERT_TRUE(encoder_.AddUpdate(Shape({0}), {.row = row}, &builder_).ok());
  const auto changes = Changes();
  ASSERT_EQ(changes[0].after_size(), 3);
  EXPECT_EQ(changes[0].after(2).kind_case(), v1::Value::KIND_NOT_SET);
  EXPECT_EQ(changes[0].op(), v1::OP_UPDATE);
  EXPECT_EQ(changes[0].before_size(), 0);
}

// … and comes from the old row where that is whole.
TEST_F(RowEncoderTest, UnchangedToastComesFromTheWholeOldRow) {
  const std::vector<TupleColumn> old_row = {T("1"), T("1"), T("large")};
  const std::vector<TupleColumn> row = {T("1"), T("2"), kUnchanged};
  ASSERT_TRUE(encoder_
                  .AddUpdate(Shape({0}),
                             {.old_kind = OldTuple::kRow, .old_row = old_row, .row = row},
                             &builder_)
                  .ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].op(), v1::OP_UPDATE);
  EXPECT_EQ(changes[0].after(2).text(), "large");
  ASSERT_EQ(changes[0].before_size(), 3);
  EXPECT_EQ(changes[0].before(1).integer(), 1);
  EXPECT_EQ(changes[0].key_size(), 0);
}

// proves R45, B005
TEST_F(RowEncoderTest, KeyChangeUnderDefaultIdentity) {
  const std::vector<TupleColumn> old_row = {T("1"), kNull, kNull};
  const std::vector<TupleColumn> row = {T("2"), T("5"), kUnchanged};
  const UpdateMessage update{.old_kind = OldTuple::kKey, .old_row = old_row, .row = row};
  EXPECT_EQ(RowEncoder::ChangesOf(Shape({0}), update), 2u);
  ASSERT_TRUE(encoder_.AddUpdate(Shape({0}), update, &builder_).ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].op(), v1::OP_DELETE);
  ASSERT_EQ(changes[0].key_size(), 1);
  EXPECT_EQ(changes[0].key(0).integer(), 1);
  EXPECT_EQ(changes[0].before_size(), 0);
  EXPECT_EQ(changes[1].op(), v1::OP_INSERT);
  EXPECT_EQ(changes[1].after(0).integer(), 2);
  EXPECT_EQ(changes[1].after(2).kind_case(), v1::Value::KIND_NOT_SET);
  EXPECT_TRUE(changes[0].key_change() && changes[1].key_change());
}

TEST_F(RowEncoderTest, KeyChangeUnderFullIdentity) {
  const std::vector<TupleColumn> old_row = {T("1"), T("5"), T("large")};
  const std::vector<TupleColumn> row = {T("2"), T("5"), kUnchanged};
  ASSERT_TRUE(encoder_
                  .AddUpdate(Shape({0}),
                             {.old_kind = OldTuple::kRow, .old_row = old_row, .row = row},
                             &builder_)
                  .ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].key(0).integer(), 1);
  EXPECT_EQ(changes[0].before(2).text(), "large");
  EXPECT_EQ(changes[1].after(2).text(), "large");
}

// The server also sends the old key when a key column is stored out of line and did not change.
TEST_F(RowEncoderTest, OldKeyThatIsTheSameIsNoKeyChange) {
  const std::vector<TupleColumn> old_row = {T("1"), kNull, T("long key")};
  const std::vector<TupleColumn> row = {T("1"), T("5"), kUnchanged};
  const UpdateMessage update{.old_kind = OldTuple::kKey, .old_row = old_row, .row = row};
  EXPECT_EQ(RowEncoder::ChangesOf(Shape({0, 2}), update), 1u);
  ASSERT_TRUE(encoder_.AddUpdate(Shape({0, 2}), update, &builder_).ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].op(), v1::OP_UPDATE);
  EXPECT_EQ(changes[0].after(2).text(), "long key") << "the key is always there";
  EXPECT_EQ(changes[0].before_size(), 0);
}

// proves B007: the delete carries the key and nothing that the wire did not say.
TEST_F(RowEncoderTest, DeleteUnderAnIndexIdentity) {
  const std::vector<TupleColumn> old_row = {kNull, T("11"), kNull};
  ASSERT_TRUE(
      encoder_.AddDelete(Shape({1}), {.old_kind = OldTuple::kKey, .old_row = old_row}, &builder_)
          .ok());
  const auto changes = Changes();
  EXPECT_EQ(changes[0].op(), v1::OP_DELETE);
  ASSERT_EQ(changes[0].key_size(), 1);
  EXPECT_EQ(changes[0].key(0).integer(), 11);
  EXPECT_EQ(changes[0].before_size() + changes[0].after_size(), 0);
  EXPECT_FALSE(changes[0].key_change());
}

// Key columns are those of the schema, in its order.
TEST_F(RowEncoderTest, DeleteUnderFullIdentity) {
  const std::vector<TupleColumn> old_row = {T("1"), T("2"), T("x")};
  ASSERT_TRUE(
      encoder_.AddDelete(Shape({2, 0}), {.old_kind = OldTuple::kRow, .old_row = old_row}, &builder_)
          .ok());
  const auto changes = Changes();
  ASSERT_EQ(changes[0].key_size(), 2);
  EXPECT_EQ(changes[0].key(0).text(), "x");
  EXPECT_EQ(changes[0].key(1).integer(), 1);
  EXPECT_EQ(changes[0].before_size(), 3);
}

// proves B009: a table without a key is a multiset; its rows are told apart by nothing.
TEST_F(RowEncoderTest, TableWithoutAKey) {
  const std::vector<TupleColumn> old_row = {kNull, T("2"), T("x")};
  const std::vector<TupleColumn> row = {T("9"), T("2"), T("x")};
  ASSERT_TRUE(encoder_
                  .AddUpdate(Shape({}),
                             {.old_kind = OldTuple::kRow, .old_row = old_row, .row = row},
                             &builder_)
                  .ok());
  ASSERT_TRUE(
      encoder_.AddDelete(Shape({}), {.old_kind = OldTuple::kRow, .old_row = old_row}, &builder_)
          .ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].op(), v1::OP_UPDATE);
  EXPECT_TRUE(changes[0].before(0).has_null());
  EXPECT_EQ(changes[1].before_size(), 3);
  EXPECT_EQ(changes[1].key_size(), 0);
}

// proves B011
TEST_F(RowEncoderTest, UpdateOfNothingIsAnUpdate) {
  const std::vector<TupleColumn> row = {T("1"), T("2"), T("x")};
  ASSERT_TRUE(encoder_
                  .AddUpdate(Shape({0}), {.old_kind = OldTuple::kRow, .old_row = row, .row = row},
                             &builder_)
                  .ok());
  EXPECT_EQ(Changes().size(), 1u);
}

TEST_F(RowEncoderTest, TruncateHasNoImages) {
  encoder_.AddTruncate(Shape({0}), &builder_);
  const auto changes = Changes();
  EXPECT_EQ(changes[0].op(), v1::OP_TRUNCATE);
  EXPECT_EQ(changes[0].after_size() + changes[0].before_size() + changes[0].key_size(), 0);
}

// O2: a row that is read and the same row that is streamed are the same bytes.
TEST_F(RowEncoderTest, ReadRowsAreWhatInsertsAre) {
  const std::vector<TupleColumn> row = {T("1"), kNull, T("a\tb\\N\n")};
  ASSERT_TRUE(encoder_.AddInsert(Shape({0}), {.row = row}, &builder_).ok());
  v1::Change inserted = Changes().at(0);
  builder_.Begin();
  const std::vector<std::optional<std::string_view>> read = {"1", std::nullopt, "a\tb\\N\n"};
  ASSERT_TRUE(encoder_.AddRead(Shape({0}), read, &builder_).ok());
  ASSERT_TRUE(encoder_.AddCopyLine(Shape({0}), "1\t\\N\ta\\tb\\\\N\\n", &builder_).ok());
  const auto changes = Changes();
  ASSERT_EQ(changes.size(), 2u);
  inserted.set_op(v1::OP_READ);
  EXPECT_EQ(changes[0].SerializeAsString(), inserted.SerializeAsString());
  inserted.set_ordinal(1);
  EXPECT_EQ(changes[1].SerializeAsString(), inserted.SerializeAsString());
}

TEST_F(RowEncoderTest, ErrorsNameTableAndColumnAndAddNothing) {
  const std::vector<TupleColumn> narrow = {T("1")};
  const std::vector<TupleColumn> row = {T("1"), T("two"), T("x")};
  const std::vector<TupleColumn> binary = {T("1"), {ColumnKind::kBinary, "\x01"}, T("x")};
  const std::vector<TupleColumn> no_key = {kNull, T("1"), T("x")};
  const std::vector<TupleColumn> good = {T("1"), T("1"), T("x")};
  const RowShape shape = Shape({0});
  absl::Status status = encoder_.AddInsert(shape, {.row = row}, &builder_);
  EXPECT_EQ(ReasonOf(status), reason::kSourceProtocol);
  EXPECT_THAT(std::string(status.message()), HasSubstr("public.t, column a"));
  EXPECT_EQ(DetailsOf(status).at("column"), "a");
  for (const auto& bad : {narrow, row, binary}) {
    EXPECT_FALSE(encoder_.AddInsert(shape, {.row = bad}, &builder_).ok());
    EXPECT_FALSE(encoder_.AddUpdate(shape, {.row = bad}, &builder_).ok());
    for (const OldTuple kind : {OldTuple::kKey, OldTuple::kRow}) {
      EXPECT_FALSE(
          encoder_.AddUpdate(shape, {.old_kind = kind, .old_row = good, .row = bad}, &builder_)
              .ok());
    }
    EXPECT_FALSE(
        encoder_
            .AddUpdate(shape, {.old_kind = OldTuple::kRow, .old_row = bad, .row = good}, &builder_)
            .ok());
    EXPECT_FALSE(
        encoder_.AddDelete(shape, {.old_kind = OldTuple::kRow, .old_row = bad}, &builder_).ok());
  }
  EXPECT_FALSE(
      encoder_.AddDelete(shape, {.old_kind = OldTuple::kKey, .old_row = no_key}, &builder_).ok());
  EXPECT_FALSE(encoder_.AddCopyLine(shape, "1\t2", &builder_).ok());
  EXPECT_FALSE(encoder_.AddCopyLine(shape, "1\t2\tx\\", &builder_).ok());
  EXPECT_EQ(builder_.changes(), 0u);
}

}  // namespace
}  // namespace tidemark::capture::postgres
