#include "capture/changelog/transaction_assembler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "proto/reason.h"
#include "tests/testing/seed.h"

namespace tidemark::capture::changelog {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChangelogRow Row(uint64_t seq, std::string_view op, std::optional<std::string_view> key,
                 std::optional<std::string_view> row,
                 std::optional<std::string_view> old_row = std::nullopt) {
  ChangelogRow made;
  made.xid = 7;
  made.seq = seq;
  made.schema = "public";
  made.table = "item";
  made.op = op;
  made.key = key;
  made.row = row;
  made.old_row = old_row;
  return made;
}

v1::Run RunOf(const SourceEvent& event) {
  v1::Run run;
  const auto& read = std::get<TransactionRead>(event);
  EXPECT_EQ(read.transaction.runs.size(), 1u);
  EXPECT_TRUE(run.ParseFromString(read.transaction.runs.at(0).bytes));
  return run;
}

class AssemblerTest : public ::testing::Test {
 protected:
  void Add(const ChangelogRow& row) {
    const absl::Status added = assembler_.Add(row, &events_);
    ASSERT_TRUE(added.ok()) << added;
  }
  v1::Run End(uint64_t number = 1) {
    assembler_.End(number, 7, 5'000'000, &events_);
    return RunOf(events_.back());
  }

  TransactionAssembler assembler_{1, /*has_old_rows=*/true, {}};
  std::vector<SourceEvent> events_;
};

// proves P06
TEST_F(AssemblerTest, EachTableIsATableOfTheFeedWithKeyAndRow) {
  Add(Row(1, "insert", R"({"id": 1})", R"({"a": "x", "id": 1})"));
  Add(Row(2, "update", R"({"id": 1})", R"({"a": "y", "id": 1})", R"({"a": "x", "id": 1})"));
  Add(Row(3, "delete", R"({"id": 1})", std::nullopt, R"({"a": "y", "id": 1})"));
  Add(Row(4, "truncate", std::nullopt, std::nullopt));
  const v1::Run run = End(17);
  ASSERT_EQ(events_.size(), 2u);
  const v1::TableSchema schema = std::get<SchemaSeen>(events_[0]).schema;
  EXPECT_EQ(schema.schema_name() + "." + schema.table_name(), "public.item");
  ASSERT_EQ(schema.columns_size(), 2);
  EXPECT_EQ(schema.columns(0).name(), "key");
  EXPECT_EQ(schema.columns(1).name(), "row");
  EXPECT_EQ(schema.columns(0).form(), v1::VALUE_FORM_JSON);
  EXPECT_THAT(schema.key_columns(), ElementsAre(0u));
  EXPECT_EQ(schema.image_level(), v1::IMAGE_LEVEL_FULL);

  ASSERT_EQ(run.changes_size(), 4);
  EXPECT_EQ(run.changes(0).op(), v1::OP_INSERT);
  EXPECT_EQ(run.changes(0).after(0).json(), R"({"id": 1})");
  EXPECT_EQ(run.changes(0).after(1).json(), R"({"a": "x", "id": 1})");
  EXPECT_EQ(run.changes(0).before_size(), 0);
  EXPECT_EQ(run.changes(1).op(), v1::OP_UPDATE);
  EXPECT_EQ(run.changes(1).before(1).json(), R"({"a": "x", "id": 1})");
  EXPECT_EQ(run.changes(2).op(), v1::OP_DELETE);
  EXPECT_EQ(run.changes(2).key(0).json(), R"({"id": 1})");
  EXPECT_EQ(run.changes(2).before(1).json(), R"({"a": "y", "id": 1})");
  EXPECT_EQ(run.changes(3).op(), v1::OP_TRUNCATE);
  for (const v1::Change& change : run.changes()) EXPECT_FALSE(change.key_change());
  const EncodedTransaction& transaction = std::get<TransactionRead>(events_[1]).transaction;
  EXPECT_EQ(transaction.position, Position::Of(1, 17));
  EXPECT_EQ(transaction.record.source_transaction_id(), "7");
  EXPECT_EQ(transaction.record.changes(), 4u);
}

TEST_F(AssemblerTest, AChangeOfTheKeyIsADeleteAndAnInsertThatSaySo) {
  Add(Row(1, "delete", R"({"id": 1})", R"({"id": 2})", R"({"id": 1})"));
  Add(Row(2, "insert", R"({"id": 2})", R"({"id": 2})", R"({"id": 1})"));
  const v1::Run run = End();
  ASSERT_EQ(run.changes_size(), 2);
  EXPECT_EQ(run.changes(0).op(), v1::OP_DELETE);
  EXPECT_TRUE(run.changes(0).key_change());
  EXPECT_EQ(run.changes(0).key(0).json(), R"({"id": 1})");
  EXPECT_EQ(run.changes(0).before(1).json(), R"({"id": 1})");
  EXPECT_EQ(run.changes(1).op(), v1::OP_INSERT);
  EXPECT_TRUE(run.changes(1).key_change());
  EXPECT_EQ(run.changes(1).before_size(), 0);
}

TEST(OpOfTest, TakesWordsAndFirstLetters) {
  EXPECT_EQ(OpOf("insert"), v1::OP_INSERT);
  EXPECT_EQ(OpOf("U"), v1::OP_UPDATE);
  EXPECT_EQ(OpOf("DELETE"), v1::OP_DELETE);
  EXPECT_EQ(OpOf("t"), v1::OP_TRUNCATE);
  for (const char* other : {"", "x", "ins", "inserted", "merge"}) {
    EXPECT_EQ(OpOf(other), v1::OP_UNSPECIFIED) << other;
  }
}

TEST_F(AssemblerTest, ARowThatMakesNoSenseIsNamed) {
  absl::Status refused = assembler_.Add(Row(41, "upsert", "{}", "{}"), &events_);
  EXPECT_EQ(ReasonOf(refused), reason::kChangelogUnusable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("row 41 (transaction 7, table public.item) "
                                                        "has the op 'upsert'"));
  refused = assembler_.Add(Row(42, "update", std::nullopt, "{}"), &events_);
  EXPECT_EQ(ReasonOf(refused), reason::kChangelogUnusable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has no key"));
  refused = assembler_.Add(Row(43, "insert", "\xff", "{}"), &events_);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not UTF-8"));
}

// proves P17: whatever names and texts are, they are told byte for byte.
TEST_F(AssemblerTest, NamesAndTextsAreOpaque) {
  std::mt19937_64 random(testing::SeedFromEnvironment());
  const auto text = [&] {
    std::string made;
    for (size_t length = 1 + random() % 40; made.size() < length;) {
      made += static_cast<char>(1 + random() % 127);
    }
    return made;
  };
  for (uint64_t number = 1; number <= 200; ++number) {
    const std::string schema = text(), table = text(), key = text(), row = text();
    ChangelogRow made = Row(number, "i", key, row);
    made.schema = schema;
    made.table = table;
    events_.clear();
    Add(made);
    const v1::Run run = End(number);
    const v1::TableSchema seen = std::get<SchemaSeen>(events_[0]).schema;
    EXPECT_EQ(seen.schema_name(), schema);
    EXPECT_EQ(seen.table_name(), table);
    EXPECT_EQ(run.changes(0).after(0).json(), key);
    EXPECT_EQ(run.changes(0).after(1).json(), row);
  }
}

// proves P08, P29: parts of a large one, and its end, once it is there.
TEST_F(AssemblerTest, ALargeTransactionIsHandedOverInParts) {
  const std::string payload = "\"" + std::string(10'000, 'x') + "\"";
  for (uint64_t i = 1; i <= 300; ++i) {
    const std::string key = fmt::format("{{\"id\": {}}}", i);
    Add(Row(i, "insert", key, payload));
  }
  EXPECT_EQ(assembler_.rows(), 300u);
  assembler_.End(1, 7, 5'000'000, &events_);
  uint64_t changes = 0;
  size_t parts = 0;
  for (const SourceEvent& event : events_) {
    if (const auto* part = std::get_if<LargePart>(&event)) {
      ++parts;
      for (const EncodedRun& run : part->runs) changes += run.changes;
    }
    EXPECT_FALSE(std::holds_alternative<TransactionRead>(event));
  }
  EXPECT_GT(parts, 1u);
  EXPECT_EQ(changes, 300u);
  EXPECT_EQ(std::get<LargeCommitted>(events_.back()).record.changes(), 300u);
  // The next one is small again.
  Add(Row(400, "insert", "{}", "{}"));
  EXPECT_EQ(End(2).changes_size(), 1);
}

TEST(AssemblerBeforeImagesTest, KnownRowsTellTheRowBeforeWhereTheChangelogDoesNot) {
  TransactionAssembler assembler(1, false, {*TablePattern::Parse("public.item")});
  std::vector<SourceEvent> events;
  ASSERT_TRUE(assembler.Add(Row(1, "update", "{}", "{}"), &events).ok());
  assembler.End(1, 7, 0, &events);
  EXPECT_EQ(std::get<SchemaSeen>(events[0]).schema.image_level(), v1::IMAGE_LEVEL_KEY);
  EXPECT_TRUE(std::get<TransactionRead>(events[1]).transaction.runs.at(0).has_gaps);
}

}  // namespace
}  // namespace tidemark::capture::changelog
