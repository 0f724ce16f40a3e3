// What capture finds among the current rows: everything that was appended, and nothing else.
#include "server/store_rows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "capture/value_writer.h"
#include "proto/reason.h"
#include "tests/server/feed_fixture.h"

namespace tidemark {
namespace {

using testing::At;
using testing::CheckpointAt;
using ::testing::ElementsAre;
using testing::FeedFixture;
using ::testing::IsEmpty;
using testing::SampleRun;
using testing::SampleTable;
using testing::SampleTransaction;

class StoreRowsTest : public ::testing::Test {
 protected:
  // The snapshot holds the rows 1 and 3 of table orders.
  void SetUp() override {
    ASSERT_TRUE(store().BeginSnapshot().ok());
    ASSERT_TRUE(store().AddSnapshotRows({SampleTable()}, {SampleRun(0, {1, 3}, v1::OP_READ)}).ok());
    store::AppendBatch whole;
    whole.snapshot_whole = At(10);
    whole.checkpoint = CheckpointAt(10);
    ASSERT_TRUE(store().Append(whole).ok());
  }

  store::FeedStore& store() { return fixture_.feed().store(); }

  void Append(EncodedTransaction transaction, const v1::TableSchema& table = SampleTable()) {
    store::AppendBatch batch;
    batch.schemas = {table};
    batch.checkpoint = CheckpointAt(transaction.position.engine_low());
    batch.transactions.push_back(std::move(transaction));
    ASSERT_TRUE(store().Append(batch).ok());
  }

  // One transaction with one change of table orders.
  void AppendChange(uint64_t number, const v1::Change& change) {
    v1::Run run;
    run.add_schema_ids(SampleTable().schema_id());
    *run.add_changes() = change;
    EncodedTransaction transaction = SampleTransaction(number, {0});
    transaction.runs[0].bytes = run.SerializeAsString();
    transaction.record.set_bytes(transaction.runs[0].bytes.size());
    Append(std::move(transaction));
  }

  std::string Key(int64_t id) {
    v1::Value value;
    value.set_integer(id);
    const std::string serialized = value.SerializeAsString();
    const std::string_view values[] = {serialized};
    const auto key = rows_.EncodeKey(values);
    EXPECT_TRUE(key.ok()) << key.status();
    return key.value_or("");
  }

  static std::string Text(const capture::KnownRow& row) {
    v1::Change change;
    EXPECT_TRUE(change.ParseFromString(row.after));
    std::string text = fmt::format("{}@{}", change.after(0).integer(), row.position.engine_low());
    if (change.after_size() > 1) text += " " + change.after(1).text();
    return text;
  }

  std::string Find(int64_t id) {
    const auto row = rows_.Find(SampleTable(), Key(id));
    EXPECT_TRUE(row.ok()) << row.status();
    if (!row.ok()) return "error";
    if (!row->has_value()) return "none";
    EXPECT_EQ((*row)->key, Key(id));
    return Text(**row);
  }

  std::vector<std::string> Scan(const v1::TableSchema& table, std::string_view from) {
    std::vector<std::string> rows;
    auto scan = rows_.Scan(table, from);
    EXPECT_TRUE(scan.ok()) << scan.status();
    capture::KnownRow row;
    while (scan.ok()) {
      const auto more = (*scan)->Next(&row);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) break;
      rows.push_back(Text(row));
    }
    return rows;
  }

  FeedFixture fixture_;
  StoreRows rows_{fixture_.feed().store()};
};

TEST_F(StoreRowsTest, KnowsTheSnapshotAndWhatWasJustAppended) {
  EXPECT_EQ(Find(1), "1@10 row 1");
  EXPECT_EQ(Find(2), "none");
  Append(SampleTransaction(20, {2}));
  EXPECT_EQ(Find(2), "2@20 row 2");
  v1::Change update;
  update.set_op(v1::OP_UPDATE);
  update.add_after()->set_integer(3);
  update.add_after()->set_text("new");
  AppendChange(30, update);
  EXPECT_EQ(Find(3), "3@30 new");
  v1::Change removal;
  removal.set_op(v1::OP_DELETE);
  removal.add_key()->set_integer(1);
  AppendChange(40, removal);
  EXPECT_EQ(Find(1), "none");
}

TEST_F(StoreRowsTest, ScansInOrderOfTheKeyFromAKeyOn) {
  Append(SampleTransaction(20, {-5, 2, 300}));
  EXPECT_THAT(Scan(SampleTable(), ""), ElementsAre("-5@20 row -5", "1@10 row 1", "2@20 row 2",
                                                   "3@10 row 3", "300@20 row 300"));
  EXPECT_THAT(Scan(SampleTable(), Key(2)),
              ElementsAre("2@20 row 2", "3@10 row 3", "300@20 row 300"));
  EXPECT_THAT(Scan(SampleTable(), Key(301)), IsEmpty());
}

TEST_F(StoreRowsTest, AScanStaysWithinItsTableAndItsMoment) {
  const v1::TableSchema before = SampleTable("order");
  const v1::TableSchema behind = SampleTable("orderz");
  Append(SampleTransaction(20, {7}, before), before);
  Append(SampleTransaction(30, {8}, behind), behind);
  auto scan = rows_.Scan(SampleTable(), "");
  ASSERT_TRUE(scan.ok()) << scan.status();
  Append(SampleTransaction(40, {2}));
  ASSERT_EQ(Find(2), "2@40 row 2");
  std::vector<std::string> rows;
  capture::KnownRow row;
  while (*(*scan)->Next(&row)) rows.push_back(Text(row));
  EXPECT_THAT(rows, ElementsAre("1@10 row 1", "3@10 row 3"));
}

TEST_F(StoreRowsTest, KnowsNothingOfATableWithoutRows) {
  v1::TableSchema keyless = SampleTable("keyless");
  keyless.clear_key_columns();
  EXPECT_FALSE(rows_.Kept(keyless));
  EXPECT_THAT(Scan(keyless, ""), IsEmpty());
  const auto row = rows_.Find(keyless, Key(1));
  ASSERT_TRUE(row.ok());
  EXPECT_FALSE(row->has_value());
}

TEST_F(StoreRowsTest, KeysOrderAsTheirValuesAndAbsentOnesAreRefused) {
  EXPECT_LT(Key(-1), Key(0));
  EXPECT_LT(Key(9), Key(10));
  const std::string_view absent[] = {""};
  EXPECT_EQ(ReasonOf(rows_.EncodeKey(absent).status()), reason::kIdentityUnusable);
}

// The after-image of a known row is byte for byte what capture writes for an equal row.
TEST_F(StoreRowsTest, AKnownRowIsTheImageThatCaptureWrites) {
  std::string image;
  capture::AppendInteger(capture::ValueTag::kAfter, 3, &image);
  capture::AppendText(capture::ValueTag::kAfter, "row 3", &image);
  const auto row = rows_.Find(SampleTable(), Key(3));
  ASSERT_TRUE(row.ok() && row->has_value());
  EXPECT_EQ((*row)->after, image);
  EXPECT_EQ((*row)->schema_id, SampleTable().schema_id());
}

}  // namespace
}  // namespace tidemark
