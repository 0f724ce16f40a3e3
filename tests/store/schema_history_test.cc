// Old rows keep their old schemas, and each schema is known from where it holds.
#include "store/schema_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "rocksdb/iterator.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;

class SchemaHistoryTest : public StoreFixture {
 protected:
  const v1::TableSchema before_ = SampleSchema("t", {"name"});
  const v1::TableSchema after_ = SampleSchema("t", {"name", "added"});
  const v1::TableSchema other_ = SampleSchema("a_table", {"x"});

  static EncodedTransaction Transaction(uint64_t position, std::vector<EncodedRun> runs,
                                        const std::vector<v1::TableSchema>& schemas) {
    EncodedTransaction transaction;
    transaction.position = At(position);
    for (const v1::TableSchema& schema : schemas) {
      transaction.record.add_schema_ids(schema.schema_id());
    }
    transaction.runs = std::move(runs);
    return transaction;
  }

  static EncodedRun RunOf(uint64_t first_sequence, const v1::TableSchema& schema, int changes) {
    std::vector<v1::Change> all;
    for (int i = 0; i < changes; ++i) all.push_back(Delete(i));
    return {first_sequence, 0, static_cast<uint32_t>(changes), RunBytes(schema, all)};
  }

  void AppendWith(const std::vector<v1::TableSchema>& schemas, EncodedTransaction transaction) {
    AppendBatch batch;
    batch.schemas = schemas;
    batch.transactions = {std::move(transaction)};
    const absl::Status status = feed_->Append(batch);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::vector<std::string> CurrentColumns() {
    std::vector<std::string> lines;
    for (const v1::TableSchema& schema : feed_->CurrentSchemas()) {
      lines.push_back(fmt::format("{}:{}", schema.table_name(), schema.columns_size()));
    }
    return lines;
  }

  // "position/sequence before>after" by number of columns.
  std::vector<std::string> Steps(uint64_t after, uint64_t upto) {
    std::vector<std::string> lines;
    for (const SchemaTransition& step : feed_->SchemaTransitions(At(after), At(upto))) {
      lines.push_back(fmt::format("{}/{} {}>{}", step.position.engine_low(), step.sequence,
                                  feed_->Schema(step.before)->columns_size(),
                                  feed_->Schema(step.after)->columns_size()));
    }
    return lines;
  }

  // Closes the store; "position/sequence columns" for each entry of the history of table t.
  std::vector<std::string> History() {
    Close();
    auto database = Database::Open(options_);
    EXPECT_TRUE(database.ok()) << database.status();
    const std::string prefix = SchemaHistoryKey(1, "public", "t", Position(), 0);
    const std::string table = prefix.substr(0, prefix.size() - Position::kBytes - 8);
    const std::unique_ptr<rocksdb::Iterator> at(
        (*database)->rocks()->NewIterator(rocksdb::ReadOptions(), (*database)->schemas()));
    std::vector<std::string> lines;
    for (at->Seek(table); at->Valid() && at->key().starts_with(table); at->Next()) {
      const std::string_view key = at->key().ToStringView().substr(table.size());
      const uint64_t id = ReadBig64(at->value().data());
      const auto position = Position::FromBytes(key.substr(0, Position::kBytes));
      lines.push_back(fmt::format("{}/{} {}", position->engine_low(),
                                  ReadBig64(key.data() + Position::kBytes),
                                  id == before_.schema_id() ? "before" : "after"));
    }
    return lines;
  }
};

// proves R33: old rows come with their old schema.
TEST_F(SchemaHistoryTest, KeepsEverySchemaAndFromWhereItHolds) {
  OpenWithLog();
  AppendWith({before_}, Transaction(110, {RunOf(0, before_, 2)}, {before_}));
  AppendWith({after_},
             Transaction(120, {RunOf(0, before_, 3), RunOf(3, after_, 1)}, {before_, after_}));
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:3"));
  Open();
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:3"));
  const auto old = feed_->Schema(before_.schema_id());
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->SerializeAsString(), before_.SerializeAsString());
  EXPECT_TRUE(absl::IsNotFound(feed_->Schema(4711).status()));
  EXPECT_THAT(History(), ElementsAre("100/0 before", "120/3 after"));
}

TEST_F(SchemaHistoryTest, FindsAChangeOfSchemaInTheMiddleOfARun) {
  OpenWithLog();
  v1::Run mixed;
  mixed.add_schema_ids(before_.schema_id());
  mixed.add_schema_ids(after_.schema_id());
  for (uint32_t i = 0; i < 5; ++i) {
    v1::Change* change = mixed.add_changes();
    change->set_op(v1::OP_TRUNCATE);
    change->set_ordinal(i);
    change->set_table(i < 4 ? 0 : 1);
  }
  AppendWith({before_, after_},
             Transaction(110, {{10, 0, 5, mixed.SerializeAsString()}}, {before_, after_}));
  EXPECT_THAT(History(), ElementsAre("100/0 before", "110/14 after"));
}

TEST_F(SchemaHistoryTest, ASchemaThatComesBackHoldsAgain) {
  OpenWithLog();
  AppendWith({before_, after_}, Transaction(110, {RunOf(0, after_, 1)}, {after_}));
  AppendWith({}, Transaction(120, {RunOf(0, before_, 1)}, {before_}));
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:2"));
  EXPECT_THAT(History(), ElementsAre("100/0 before", "110/0 after", "120/0 before"));
}

// proves R33, R51: where each schema begins to hold, also after a restart.
TEST_F(SchemaHistoryTest, TellsEveryChangeOfSchemaInOrder) {
  OpenWithLog();
  AppendWith({before_, after_, other_},
             Transaction(110, {RunOf(0, before_, 2), RunOf(2, other_, 1)}, {before_, other_}));
  EXPECT_THAT(Steps(0, 1000), ElementsAre()) << "the first schema of a table is no change";
  AppendWith({}, Transaction(120, {RunOf(0, before_, 3), RunOf(3, after_, 1)}, {before_, after_}));
  AppendWith({}, Transaction(130, {RunOf(0, before_, 1)}, {before_}));
  const auto all = ElementsAre("120/3 2>3", "130/0 3>2");
  EXPECT_THAT(Steps(0, 1000), all);
  EXPECT_THAT(Steps(119, 120), ElementsAre("120/3 2>3"));
  EXPECT_THAT(Steps(120, 130), ElementsAre("130/0 3>2"));
  EXPECT_THAT(Steps(130, 1000), ElementsAre());
  Open();
  EXPECT_THAT(Steps(0, 1000), all);
  AppendBatch refused;
  refused.transactions = {Transaction(140, {RunOf(0, after_, 1)}, {after_}),
                          Transaction(105, {RunOf(0, after_, 1)}, {after_})};
  EXPECT_TRUE(absl::IsInvalidArgument(feed_->Append(refused)));
  EXPECT_THAT(Steps(0, 1000), all);
}

TEST_F(SchemaHistoryTest, ALargeTransactionChangesTheSchemaAtItsCommit) {
  OpenWithLog();
  ASSERT_TRUE(feed_->SpoolParts(1, {before_}, {RunOf(0, before_, 4)}).ok());
  ASSERT_TRUE(feed_->SpoolParts(1, {after_}, {RunOf(4, after_, 1)}).ok());
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:2"));
  AppendBatch batch;
  batch.spooled = {{1, At(130), {}}};
  ASSERT_TRUE(feed_->Append(batch).ok());
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:3"));
  EXPECT_THAT(History(), ElementsAre("100/0 before", "130/4 after"));
}

TEST_F(SchemaHistoryTest, ARefusedAppendChangesNothing) {
  OpenWithLog();
  AppendBatch batch;
  batch.schemas = {after_};
  batch.transactions = {Transaction(110, {RunOf(0, after_, 1)}, {after_}),
                        Transaction(105, {RunOf(0, after_, 1)}, {after_})};
  EXPECT_TRUE(absl::IsInvalidArgument(feed_->Append(batch)));
  EXPECT_THAT(CurrentColumns(), ElementsAre("t:2"));
  EXPECT_THAT(History(), ElementsAre("100/0 before"));
}

TEST_F(SchemaHistoryTest, TablesOfTheSnapshotAreKnownEvenWhenEmpty) {
  Open();
  ASSERT_TRUE(feed_->BeginSnapshot().ok());
  ASSERT_TRUE(feed_->AddSnapshotRows({before_, other_}, {}).ok());
  AppendBatch whole;
  whole.snapshot_whole = At(100);
  ASSERT_TRUE(feed_->Append(whole).ok());
  EXPECT_THAT(CurrentColumns(), ElementsAre("a_table:2", "t:2"));
  Open();
  EXPECT_THAT(CurrentColumns(), ElementsAre("a_table:2", "t:2"));
}

TEST_F(SchemaHistoryTest, RefusesASchemaWhoseIdIsNotThatOfItsContent) {
  OpenWithLog();
  AppendBatch batch;
  batch.schemas = {after_};
  batch.schemas[0].set_schema_id(1);
  EXPECT_TRUE(absl::IsInvalidArgument(feed_->Append(batch)));
}

}  // namespace
}  // namespace tidemark::store
