// What logdump prints of a store.
#include "store/log_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "proto/value_json.h"
#include "store/line_text.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using Lines = std::vector<std::string>;

class LogDumpTest : public StoreFixture {
 protected:
  void MakeStore() {
    OpenWithLog();
    EncodedTransaction first = Inserts(110, {1, 2});
    first.record.set_source_transaction_id("777");
    first.record.set_origin(v1::ORIGIN_SOURCE);
    first.record.set_commit_lsn(105);
    EncodedTransaction second = Inserts(120, {});
    std::vector<v1::Change> changes = KeyChange(1, 9, {TextValue("say \"hi\"\n")});
    changes.push_back(Update(2, {AbsentValue()}));
    second.record.set_changes(changes.size());
    second.runs = {Run(0, changes)};
    Append({first, second});
    Sync();
    Fold();
  }

  Lines Dump(absl::Status (*dump)(const DumpOptions&, const PrintLine&), DumpOptions options = {}) {
    Close();
    options.store = options_;
    Lines lines;
    const absl::Status status =
        dump(options, [&](std::string_view line) { lines.emplace_back(line); });
    EXPECT_TRUE(status.ok()) << status;
    return lines;
  }
};

TEST_F(LogDumpTest, PrintsChangesFlatAsJson) {
  MakeStore();
  const std::string first = At(110).Text();
  const std::string second = At(120).Text();
  EXPECT_THAT(
      Dump(DumpLog, {.json = true}),
      ElementsAre(
          StartsWith("{\"__record\":\"feed\",\"feed\":\"orders\""),
          "{\"__record\":\"transaction\",\"position\":\"" + first +
              "\",\"commit_time\":\"1970-01-01T00:00:00.000110Z\",\"source_transaction_id\":"
              "\"777\",\"changes\":2,\"bytes\":" +
              std::to_string(Inserts(110, {1, 2}).runs[0].bytes.size()) +
              ",\"origin\":\"source\",\"commit_lsn\":\"0/69\"}",
          "{\"__op\":\"insert\",\"__pos\":\"" + first +
              "\",\"__seq\":0,\"__table\":\"public.t\",\"id\":1,\"name\":\"row 1\"}",
          "{\"__op\":\"insert\",\"__pos\":\"" + first +
              "\",\"__seq\":1,\"__table\":\"public.t\",\"id\":2,\"name\":\"row 2\"}",
          StartsWith("{\"__record\":\"transaction\",\"position\":\"" + second),
          "{\"__op\":\"delete\",\"__pos\":\"" + second +
              "\",\"__seq\":0,\"__table\":\"public.t\",\"__key_change\":true,\"id\":1}",
          "{\"__op\":\"insert\",\"__pos\":\"" + second +
              "\",\"__seq\":1,\"__table\":\"public.t\",\"__key_change\":true,\"id\":9,\"name\":"
              "\"say \\\"hi\\\"\\n\"}",
          "{\"__op\":\"update\",\"__pos\":\"" + second +
              "\",\"__seq\":2,\"__table\":\"public.t\",\"id\":2}"));
}

TEST_F(LogDumpTest, PrintsChangesAsText) {
  MakeStore();
  EXPECT_THAT(Dump(DumpLog),
              ElementsAre(StartsWith("feed  feed orders"),
                          StartsWith("transaction  position " + At(110).Text()),
                          "  0 insert public.t id=1 name=\"row 1\"",
                          "  1 insert public.t id=2 name=\"row 2\"",
                          StartsWith("transaction  position " + At(120).Text()),
                          "  0 delete public.t (change of the key) id=1", HasSubstr("  1 insert"),
                          "  2 update public.t id=2 name=-"));
}

TEST_F(LogDumpTest, PrintsAPartOfTheLog) {
  MakeStore();
  DumpOptions options{.json = true, .transactions_only = true};
  EXPECT_THAT(Dump(DumpLog, options), SizeIs(3));
  options.after = At(110);
  EXPECT_THAT(
      Dump(DumpLog, options),
      ElementsAre(HasSubstr("feed"), HasSubstr("transaction\",\"position\":\"" + At(120).Text())));
  options.after.reset();
  options.until = At(119);
  EXPECT_THAT(
      Dump(DumpLog, options),
      ElementsAre(HasSubstr("feed"), HasSubstr("transaction\",\"position\":\"" + At(110).Text())));
  options.until.reset();
  options.tables = *TablePattern::Parse("public.other");
  EXPECT_THAT(Dump(DumpLog, options), SizeIs(1));
  options.tables = *TablePattern::Parse("public.*");
  EXPECT_THAT(Dump(DumpLog, options), SizeIs(3));
}

TEST_F(LogDumpTest, PrintsRows) {
  MakeStore();
  EXPECT_THAT(Dump(DumpRows, {.json = true}),
              ElementsAre("{\"__pos\":\"" + At(120).Text() +
                              "\",\"__seq\":2,\"__table\":\"public.t\",\"id\":2,\"name\":\"row "
                              "2\"}",
                          HasSubstr("\"id\":9")));
  EXPECT_THAT(Dump(DumpRows), ElementsAre(StartsWith("feed orders  rows at"), HasSubstr("id=2"),
                                          HasSubstr("id=9")));
}

TEST_F(LogDumpTest, PrintsFeedsAndSchemas) {
  MakeStore();
  EXPECT_THAT(
      Dump(DumpFeeds, {.json = true}),
      ElementsAre(AllOf(
          HasSubstr("\"feed\":\"orders\""), HasSubstr("\"floor\":\"" + At(100).Text()),
          HasSubstr("\"head\":\"" + At(120).Text()), HasSubstr("\"folded\":\"" + At(120).Text()),
          HasSubstr("\"checkpoint\":\"" + At(120).Text()))));
  EXPECT_THAT(Dump(DumpSchemas, {.json = true}),
              ElementsAre(HasSubstr("\"columns\":\"id bigint, name text\",\"key\":\"id\""),
                          HasSubstr("\"__record\":\"schema_since\"")));
}

// A feed that nothing is known of but its checkpoint.
std::string LineOf(const v1::Checkpoint& checkpoint) {
  FeedFacts facts;
  facts.name = "shop";
  facts.checkpoint = checkpoint;
  return FeedLine(facts, /*json=*/false);
}

TEST(LineTextTest, SaysHowFarATableWasPolled) {
  v1::Checkpoint checkpoint;
  v1::PollCheckpoint* poll = checkpoint.mutable_poll();
  poll->mutable_postgres()->set_database("shop");
  poll->set_polls(12);
  v1::PolledTableState* orders = poll->add_tables();
  orders->set_schema_name("public");
  orders->set_table_name("Order");
  orders->set_cursor_column("updated_at");
  orders->set_bound_cursor("2026-11-30 22:04:03.123457+00");
  orders->add_bound_key("7");
  orders->add_bound_key("b");
  v1::PolledTableState* events = poll->add_tables();
  events->set_schema_name("public");
  events->set_table_name("event");
  events->set_cursor_column("id");
  events->set_error_reason("CURSOR_NULL");
  EXPECT_THAT(LineOf(checkpoint),
              AllOf(HasSubstr("  database shop  polls 12  "),
                    HasSubstr("  polled public.\"Order\" by updated_at up to 2026-11-30 "
                              "22:04:03.123457+00 (7, b); public.event by id, nothing read, not "
                              "polled: CURSOR_NULL")));
  checkpoint.mutable_migration()->set_phase(v1::MIGRATION_PHASE_PREPARED);
  checkpoint.mutable_migration()->set_slot("tidemark_shop");
  checkpoint.mutable_migration()->set_consistent_lsn(0x16B3748);
  EXPECT_THAT(LineOf(checkpoint),
              HasSubstr("  migration MIGRATION_PHASE_PREPARED  migration_slot tidemark_shop  "
                        "migration_publication   migration_consistent_lsn 0/16B3748"));
}

TEST(LineTextTest, SaysHowFarAChangelogWasRead) {
  v1::Checkpoint checkpoint;
  v1::ChangelogCheckpoint* changelog = checkpoint.mutable_changelog();
  changelog->set_schema_name("tidemark");
  changelog->set_table_name("changelog");
  changelog->set_strategy("snapshot");
  changelog->set_snapshot("774:776:774");
  changelog->set_highest_seq(18'446'744'073'709'551'615u);
  EXPECT_THAT(LineOf(checkpoint),
              AllOf(HasSubstr("  table tidemark.changelog  strategy snapshot  seen 774:776:774"),
                    HasSubstr("  highest_seq 18446744073709551615"), Not(HasSubstr("pulling"))));
  changelog->set_pulling("774:780:774");
  changelog->set_told_xid(775);
  EXPECT_THAT(LineOf(checkpoint), HasSubstr("  pulling 774:780:774  told_seq 0  told_xid 775"));
}

TEST_F(LogDumpTest, SaysThatThereIsNoSuchFeed) {
  MakeStore();
  Close();
  const absl::Status status =
      DumpLog({.store = options_, .feed = "nothing"}, [](std::string_view) {});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

// proves that no digit is lost on the way: what a double cannot hold comes out whole
TEST(ValueTextTest, KeepsEveryDigit) {
  const auto text = [](const std::function<void(v1::Value*)>& set) {
    v1::Value value;
    set(&value);
    std::string out;
    AppendJsonValue(value, &out);
    return out;
  };
  EXPECT_EQ(text([](auto* v) { v->set_integer(INT64_MIN); }), "-9223372036854775808");
  EXPECT_EQ(text([](auto* v) { v->set_integer(9007199254740993); }), "9007199254740993");
  EXPECT_EQ(text([](auto* v) { v->set_unsigned_integer(UINT64_MAX); }), "18446744073709551615");
  EXPECT_EQ(text([](auto* v) { v->set_decimal("123456789012345678901234567890.1200"); }),
            "\"123456789012345678901234567890.1200\"");
  EXPECT_EQ(text([](auto* v) { v->set_float64(0.1); }), "0.1");
  EXPECT_EQ(text([](auto* v) { v->set_float32(0.1F); }), "0.1");
  EXPECT_EQ(text([](auto* v) { v->set_float64(-std::numeric_limits<double>::infinity()); }),
            "\"-Infinity\"");
  EXPECT_EQ(text([](auto* v) { v->set_binary(std::string("\x00\xFF", 2)); }), "\"AP8=\"");
  EXPECT_EQ(text([](auto* v) { v->set_json("{\"a\": 1.0}"); }), "\"{\\\"a\\\": 1.0}\"");
  EXPECT_EQ(text([](auto* v) {
              v->mutable_list()->add_items()->set_integer(1);
              v->mutable_list()->add_items()->set_null(v1::NULL_VALUE_UNSPECIFIED);
              v->mutable_list()->add_lower_bounds(-2);
            }),
            "{\"lower_bounds\":[-2],\"items\":[1,null]}");
}

// A column never takes the place of a member of ours.
TEST(ValueTextTest, KeepsColumnsApartFromMembers) {
  v1::TableSchema schema = SampleSchema("t", {"__op", "a\"b"});
  const v1::Change change = Insert(1, {TextValue("x"), NullOfDatabase()});
  EXPECT_EQ(
      ChangeLine(Position(), 0, schema, change, true),
      "{\"__op\":\"insert\",\"__pos\":\"" + Position().Text() +
          "\",\"__seq\":0,\"__table\":\"public.t\",\"id\":1,\"___op\":\"x\",\"a\\\"b\":null}");
}

}  // namespace
}  // namespace tidemark::store
