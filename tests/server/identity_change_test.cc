// When rows can no longer be found by what they are kept by.
#include "server/identity_change.h"

#include <gmock/gmock.h>

#include "proto/reason.h"
#include "proto/schema_id.h"
#include "server/event_writer.h"
#include "tests/server/feed_fixture.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Columns "name" or "name:type", all integers unless the type is text; the key by index.
v1::TableSchema Table(const std::vector<std::string>& columns, const std::vector<uint32_t>& key) {
  v1::TableSchema table;
  table.set_schema_name("public");
  table.set_table_name("t");
  for (const std::string& text : columns) {
    const size_t colon = text.find(':');
    const std::string type = colon == std::string::npos ? "integer" : text.substr(colon + 1);
    v1::Column* column = table.add_columns();
    column->set_name(text.substr(0, colon));
    column->set_source_type(type);
    column->set_form(type == "text" ? v1::VALUE_FORM_TEXT : v1::VALUE_FORM_INTEGER);
  }
  table.mutable_key_columns()->Assign(key.begin(), key.end());
  return table;
}

TEST(IdentityChangeTest, TheSameColumnsInTheSameOrderAreTheSame) {
  const v1::TableSchema table = Table({"id", "code", "a"}, {0});
  EXPECT_EQ(IdentityChange(table, table), std::nullopt);
  EXPECT_EQ(IdentityChange(table, Table({"id", "code", "a", "more"}, {0})), std::nullopt);
  EXPECT_EQ(IdentityChange(table, Table({"code", "id"}, {1})), std::nullopt) << "known by name";
  EXPECT_EQ(IdentityChange(table, Table({"id:bigint", "code", "a"}, {0})), std::nullopt)
      << "its values stay the same bytes";
  EXPECT_EQ(IdentityChange(table, Table({"number", "code", "a"}, {0})), std::nullopt) << "renamed";
}

TEST(IdentityChangeTest, AnythingElseIsAChange) {
  const v1::TableSchema table = Table({"id", "code", "a"}, {0});
  EXPECT_EQ(IdentityChange(table, Table({"id", "code", "a"}, {1})), "from (id) to (code)");
  EXPECT_EQ(IdentityChange(table, Table({"id", "code", "a"}, {0, 1})), "from (id) to (id, code)");
  EXPECT_EQ(IdentityChange(table, Table({"id", "code", "a"}, {})), "from (id) to none");
  EXPECT_EQ(IdentityChange(Table({"id"}, {}), Table({"id"}, {0})), "from none to (id)");
  EXPECT_EQ(IdentityChange(Table({"a", "b"}, {0, 1}), Table({"a", "b"}, {1, 0})),
            "from (a, b) to (b, a)");
  EXPECT_EQ(IdentityChange(table, Table({"id:text", "code", "a"}, {0})), "from (id) to (id)")
      << "other bytes";
  EXPECT_EQ(IdentityChange(table, Table({"number", "a"}, {0})), "from (id) to (number)")
      << "more than a name differs: which column it was nobody knows";
}

// What the store does about it.
class LostTableTest : public ::testing::Test {
 protected:
  static v1::TableSchema Keyed(uint32_t key) {
    v1::TableSchema table = testing::SampleTable();
    table.set_key_columns(0, key);
    table.clear_schema_id();
    table.set_schema_id(SchemaId(table));
    return table;
  }
  static capture::CaptureBatch Batch(uint64_t number, const std::vector<int64_t>& ids,
                                     const v1::TableSchema& table) {
    capture::CaptureBatch batch;
    batch.events.push_back(capture::SchemaSeen{table});
    batch.events.push_back(
        capture::TransactionRead{testing::SampleTransaction(number, ids, table)});
    batch.checkpoint = testing::CheckpointAt(number);
    return batch;
  }

  store::FeedStore& store() { return fixture_.feed().store(); }

  WrittenBatch Write(capture::CaptureBatch batch) {
    auto written = writer_->Write(std::move(batch));
    EXPECT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(store().Sync().ok());
    return written.ok() ? *std::move(written) : WrittenBatch{};
  }
  size_t RowsKept() {
    EXPECT_TRUE(store().FoldToHead().ok());
    auto rows = store().NewRowsReader();
    EXPECT_TRUE(rows.ok()) << rows.status();
    store::StoredRow row;
    size_t count = 0;
    while (*(*rows)->Next(&row)) ++count;
    return count;
  }
  void NewWriter() {
    writer_ = std::make_unique<EventWriter>(
        store(), fixture_.feed().tail(), [](const v1::TableSchema&) { return false; },
        [] { return false; });
  }

  void SetUp() override {
    NewWriter();
    Write(testing::SnapshotBegins());
    Write(testing::SnapshotEnds(10, {1, 2}));
  }

  testing::FeedFixture fixture_;
  std::unique_ptr<EventWriter> writer_;
};

TEST_F(LostTableTest, ItsRowsGoAndOnlyItsOwn) {
  const v1::TableSchema other = testing::SampleTable("others");
  Write(Batch(20, {5}, other));
  Write(Batch(30, {3}, testing::SampleTable()));
  EXPECT_EQ(RowsKept(), 4u);
  // The tail holds rows by the old identity, not folded yet.
  Write(Batch(40, {4}, testing::SampleTable()));
  const WrittenBatch written = Write(Batch(50, {6}, Keyed(1)));
  ASSERT_THAT(written.lost, SizeIs(1));
  EXPECT_EQ(written.lost[0].reason(), reason::kIdentityChanged);
  EXPECT_TRUE(written.lost[0].had_rows());
  EXPECT_EQ(written.lost[0].position(), testing::At(50).bytes());
  EXPECT_THAT(written.lost[0].message(), HasSubstr("public.orders changed from (id) to (name)"));
  EXPECT_FALSE(store().KeepsRows(Keyed(1)));
  EXPECT_FALSE(store().KeepsRows(testing::SampleTable()));
  EXPECT_TRUE(store().KeepsRows(other));
  EXPECT_EQ(RowsKept(), 1u);
  // Said once, and not forgotten, whatever identity comes next.
  EXPECT_THAT(Write(Batch(60, {7}, testing::SampleTable())).lost, IsEmpty());
  writer_.reset();
  fixture_.Reopen();
  ASSERT_THAT(store().LostTables(), SizeIs(1));
  EXPECT_EQ(store().LostTables()[0].message(), written.lost[0].message());
  EXPECT_FALSE(store().KeepsRows(testing::SampleTable()));
  NewWriter();
  Write(Batch(70, {8}, testing::SampleTable()));
  EXPECT_EQ(RowsKept(), 1u);
}

TEST_F(LostTableTest, RowsThatAreReadAgainAreKeptAgain) {
  Write(Batch(20, {3}, Keyed(1)));
  EXPECT_EQ(RowsKept(), 0u);
  Write(Batch(30, {4, 5}, Keyed(1)));
  store::AppendBatch batch;
  batch.checkpoint = testing::CheckpointAt(40);
  batch.transactions = {testing::SampleTransaction(40, {7, 8}, Keyed(1))};
  batch.restored = {{"public", "orders"}};
  ASSERT_TRUE(store().Append(batch).ok());
  EXPECT_THAT(store().LostTables(), IsEmpty());
  EXPECT_EQ(RowsKept(), 2u) << "what came before they were read is not among them";
  const auto row = store().FindRow(Keyed(1), "");
  EXPECT_TRUE(row.ok());
  writer_.reset();
  fixture_.Reopen();
  EXPECT_THAT(store().LostTables(), IsEmpty());
  EXPECT_EQ(RowsKept(), 2u);
}

TEST_F(LostTableTest, ATableWithoutRowsLosesNone) {
  store().SetRowsPolicy([](const v1::TableSchema&) { return false; });
  EXPECT_THAT(Write(Batch(20, {3}, Keyed(1))).lost, IsEmpty());
}

}  // namespace
}  // namespace tidemark
