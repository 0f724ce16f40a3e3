// The verdict on a changelog's table, and on whether it is the one that was read.
#include "capture/changelog/table_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/changelog/changelog_row.h"
#include "capture/changelog/holder.h"
#include "capture/changelog/source.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Settings Plain() {
  v1::FeedConfig config;
  config.set_name("shop");
  config.mutable_changelog();
  return *SettingsOf(config);
}

TableFacts Good() {
  TableFacts facts;
  facts.oid = 16384;
  facts.kind = "r";
  facts.columns = {{"seq", "bigint"},      {"xid", "xid8"}, {"schema_name", "text"},
                   {"table_name", "text"}, {"op", "text"},  {"key", "jsonb"},
                   {"row", "jsonb"}};
  facts.sequences = {{.name = "tidemark.changelog_seq"}};
  facts.has_unique_seq = facts.has_xid_seq_index = true;
  facts.may_use_schema = facts.may_select = true;
  facts.role = "reader";
  facts.synchronous_commit = "on";
  return facts;
}

// The one thing that is wrong with them: reason, message and remedy.
std::string Only(const TableFacts& facts, const Settings& settings = Plain()) {
  const std::vector<Lack> lacks = LacksOf(facts, settings);
  EXPECT_THAT(lacks, SizeIs(1));
  if (lacks.empty()) return "";
  EXPECT_EQ(CheckTable(facts, settings).ok(), lacks[0].warning);
  return lacks[0].reason + ": " + lacks[0].message + ": " + lacks[0].remedy;
}

TEST(TableFactsTest, AGoodOneLacksNothing) { EXPECT_THAT(LacksOf(Good(), Plain()), IsEmpty()); }

TEST(TableFactsTest, NoTable) {
  EXPECT_THAT(Only({}), HasSubstr("SOURCE_TABLE_MISSING: there is no table tidemark.changelog"));
}

TEST(TableFactsTest, ASequenceWithACacheIsRefused) {
  TableFacts facts = Good();
  facts.sequences[0].cache = 32;
  EXPECT_THAT(Only(facts), HasSubstr("CHANGELOG_UNUSABLE: sequence tidemark.changelog_seq"));
  EXPECT_THAT(Only(facts), HasSubstr("ALTER SEQUENCE tidemark.changelog_seq CACHE 1;"));
  facts = Good();
  facts.sequences[0].cycles = true;
  EXPECT_THAT(Only(facts), HasSubstr("do not rise"));
  facts.sequences.clear();
  EXPECT_THAT(Only(facts), HasSubstr("OWNED BY tidemark.changelog.seq"));
}

// proves P31, P06, P26, X5
TEST(TableFactsTest, ColumnsAndIndexesAreAsTheyMustBe) {
  TableFacts facts = Good();
  facts.columns["xid"] = "xid";
  EXPECT_THAT(Only(facts), HasSubstr("column xid of tidemark.changelog is xid; xid8 is needed"));
  EXPECT_THAT(Only(facts), HasSubstr("pg_current_xact_id()"));
  facts = Good();
  facts.columns.erase("op");
  EXPECT_THAT(Only(facts), HasSubstr("has no column op"));
  facts = Good();
  facts.has_xid_seq_index = false;
  EXPECT_THAT(
      Only(facts),
      HasSubstr("CREATE INDEX CONCURRENTLY ON \"tidemark\".\"changelog\" (\"xid\", \"seq\");"));
  facts = Good();
  facts.plan = "Aggregate\n  ->  Seq Scan on changelog c\n";
  EXPECT_THAT(Only(facts), HasSubstr("does not use the index"));
  facts = Good();
  facts.has_unique_seq = false;
  EXPECT_THAT(Only(facts), HasSubstr("CREATE UNIQUE INDEX"));
}

TEST(TableFactsTest, WhatMayBeMissingMustBeThereWhenItIsNamed) {
  Settings settings = Plain();
  settings.columns.old_row = "before";
  settings.columns.old_row_named = true;
  EXPECT_THAT(Only(Good(), settings), HasSubstr("has no column before"));
}

TEST(TableFactsTest, PrivilegesComeWithTheStatementThatGrantsThem) {
  TableFacts facts = Good();
  facts.may_select = false;
  EXPECT_THAT(Only(facts), HasSubstr("SOURCE_PRIVILEGE: role reader may not read"));
  EXPECT_THAT(Only(facts), HasSubstr("GRANT SELECT ON \"tidemark\".\"changelog\" TO \"reader\";"));
  facts = Good();
  Settings trims = Plain();
  trims.trim = true;
  EXPECT_THAT(Only(facts, trims), HasSubstr("GRANT SELECT, DELETE ON"));
  facts.hides_rows = facts.may_delete = true;
  EXPECT_THAT(Only(facts, trims), HasSubstr("BYPASSRLS"));
}

// proves P35
TEST(TableFactsTest, OnAStandbyOnlyTheWatermarkCanBeTrusted) {
  TableFacts facts = Good();
  facts.in_recovery = true;
  EXPECT_THAT(Only(facts), HasSubstr("CHANGELOG_UNUSABLE: the server is a standby"));
  Settings settings = Plain();
  settings.strategy = Strategy::kXidWatermark;
  EXPECT_THAT(LacksOf(facts, settings), IsEmpty());
  settings.trim = true;
  EXPECT_THAT(Only(facts, settings), HasSubstr("trim: false"));
}

// A warning: somebody may want it so.
TEST(TableFactsTest, TriggersThatDoNotAlwaysFireAreNamed) {
  TableFacts facts = Good();
  facts.triggers = {{"public.item", "\"00_tidemark_changelog\"", false}};
  EXPECT_THAT(Only(facts), HasSubstr("of table public.item is disabled"));
  EXPECT_THAT(Only(facts), HasSubstr("ALTER TABLE public.item ENABLE ALWAYS TRIGGER "
                                     "\"00_tidemark_changelog\";"));
  facts.triggers[0].fires_at_origin = true;
  EXPECT_THAT(Only(facts), HasSubstr("session_replication_role = replica"));
}

TEST(TableFactsTest, AsynchronousCommitIsWarnedOf) {
  TableFacts facts = Good();
  facts.synchronous_commit = "off";
  EXPECT_THAT(Only(facts), HasSubstr("may take back transactions that were told"));
}

v1::ChangelogCheckpoint Read() {
  v1::ChangelogCheckpoint told;
  told.mutable_postgres()->set_system_identifier("71");
  told.mutable_postgres()->set_database("shop");
  told.mutable_postgres()->set_timeline(1);
  told.set_schema_name("tidemark");
  told.set_table_name("changelog");
  told.set_table_oid(16384);
  told.set_highest_seq(50);
  told.set_watermark_xid(800);
  return told;
}

// proves P28, X7
TEST(SameChangelogTest, AnotherClusterTableOrTimelineIsNotGoneOnWith) {
  v1::ChangelogCheckpoint now = Read();
  EXPECT_TRUE(CheckSame(Read(), now, "db").ok());
  now.mutable_postgres()->set_system_identifier("72");
  EXPECT_EQ(ReasonOf(CheckSame(Read(), now, "db")), reason::kSourceReplaced);
  now = Read();
  now.set_table_oid(20000);
  EXPECT_EQ(ReasonOf(CheckSame(Read(), now, "db")), reason::kSourceReplaced);
  now = Read();
  now.mutable_postgres()->set_timeline(2);
  EXPECT_EQ(ReasonOf(CheckSame(Read(), now, "db")), reason::kSourceTimeline);
  now.mutable_postgres()->clear_timeline();
  EXPECT_TRUE(CheckSame(Read(), now, "db").ok()) << "what may not be asked is not known";
}

TEST(SameChangelogTest, WhatWasSetBackIsNoticed) {
  const PullBegun good = {.snapshot = "801:801:", .highest_seq = 50};
  EXPECT_TRUE(CheckNotRewound(Read(), good, 16384, false, false).ok());
  EXPECT_EQ(ReasonOf(CheckNotRewound(Read(), good, 16385, false, false)), reason::kSourceReplaced);
  const PullBegun emptied = {.snapshot = "801:801:", .highest_seq = 0};
  EXPECT_EQ(ReasonOf(CheckNotRewound(Read(), emptied, 16384, false, false)),
            reason::kSourceRewound);
  EXPECT_TRUE(CheckNotRewound(Read(), emptied, 16384, /*trimmed=*/true, false).ok());
  const PullBegun younger = {.snapshot = "700:790:700", .highest_seq = 60};
  EXPECT_EQ(ReasonOf(CheckNotRewound(Read(), younger, 16384, true, false)), reason::kSourceRewound);
  EXPECT_TRUE(CheckNotRewound(Read(), younger, 16384, false, /*in_recovery=*/true).ok());
}

// proves P21
TEST(HolderTextTest, SaysWhoOrWhyNot) {
  EXPECT_EQ(HolderText(9, "pid 5", false, "r"), "transaction 9: pid 5");
  EXPECT_THAT(HolderText(9, "", true, "r"), HasSubstr("of the primary"));
  EXPECT_THAT(HolderText(9, "", false, "r"), HasSubstr("GRANT pg_read_all_stats TO \"r\";"));
}

TEST(ChangelogRowTest, IsALineOfACopy) {
  RowScratch scratch;
  const auto row =
      ParseRow("9007199254740993\t12\tpublic\ta\\tb\tinsert\t{\"id\": 1}\t\\N\t\\N\t5\n", &scratch);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(row->xid, 9007199254740993u);
  EXPECT_EQ(row->table, "a\tb");
  EXPECT_EQ(row->key, "{\"id\": 1}");
  EXPECT_EQ(row->row, std::nullopt);
  EXPECT_EQ(row->changed_at_us, 5);
  for (const char* bad :
       {"", "1\t2", "x\t12\tp\tt\ti\t{}\t{}\t\\N\t5", "1\t\\N\tp\tt\ti\t{}\t{}\t\\N\t5"}) {
    EXPECT_EQ(ReasonOf(ParseRow(bad, &scratch).status()), reason::kSourceProtocol) << bad;
  }
}

TEST(SettingsTest, NamesAndDefaults) {
  const Settings settings = Plain();
  EXPECT_EQ(settings.TableText(), "tidemark.changelog");
  EXPECT_EQ(settings.interval, absl::Milliseconds(500));
  EXPECT_EQ(settings.page_rows, 1000u);
  EXPECT_EQ(settings.columns.old_row, "old_row");
  v1::FeedConfig config;
  config.mutable_changelog()->set_table("audit.*");
  EXPECT_EQ(ReasonOf(SettingsOf(config).status()), reason::kConfigInvalid);
  config.mutable_changelog()->set_table("Audit.\"Log.1\"");
  EXPECT_EQ(ReasonOf(SettingsOf(config).status()), reason::kConfigInvalid);
  config.mutable_changelog()->set_table("audit.\"Log.1\"");
  EXPECT_EQ(SettingsOf(config)->table, "Log.1");
  config.mutable_changelog()->set_strategy("seq");
  EXPECT_EQ(ReasonOf(SettingsOf(config).status()), reason::kConfigInvalid);
}

}  // namespace
}  // namespace tidemark::capture::changelog
