// What polling asks of a source, and what it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <regex>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PollSourceTest : public PollFixture {
 protected:
  // What `tidemarkd --check` says, and that it is no success.
  std::string Refusal(const PollOptions& options) {
    WriteConfig({options});
    const auto checked = tidemark_->Check();
    EXPECT_TRUE(checked.ok()) << checked.status();
    if (!checked.ok()) return "";
    EXPECT_NE(checked->exit_code, 0) << checked->out << checked->err;
    return checked->out + checked->err;
  }
  ::testing::AssertionResult Passes(const PollOptions& options) {
    WriteConfig({options});
    const auto checked = tidemark_->Check();
    if (!checked.ok()) return ::testing::AssertionFailure() << checked.status();
    return checked->exit_code == 0 ? ::testing::AssertionSuccess()
                                   : ::testing::AssertionFailure() << checked->out << checked->err;
  }
  // Rows that the source itself read of a table.
  uint64_t RowsRead(const std::string& table) {
    return std::stoull(
        Value("select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from "
              "pg_stat_user_tables where relname = '" +
              table + "'"));
  }
};

// The role may do nothing but SELECT, in sessions that write nothing, on a server that keeps no log
// for anybody: every test of polling is one of such a role. Here it is that too little is named
// with the statement that mends it.
// proves A28
TEST_F(PollSourceTest, SelectIsAllThatItNeedsAndWithoutItTheStatementIsNamed) {
  Exec({"create table item (id int primary key, at timestamptz not null)",
        "create index on item (at, id)", "insert into item values (1, now())",
        "revoke select on item from poller"});
  const PollOptions options{.tables = {"{table: public.item, cursor: at}"}};
  const std::string refusal = Refusal(options);
  EXPECT_THAT(refusal, HasSubstr("SOURCE_PRIVILEGE"));
  EXPECT_THAT(refusal, ::testing::ContainsRegex("GRANT SELECT ON .*item.* TO .*poller"));
  Exec({"grant select on item to poller"});
  EXPECT_TRUE(Passes(options));
  StartFeeds({options});
  if (HasFatalFailure()) return;
  Exec({"insert into item values (2, now())"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("insert 2"));
  EXPECT_EQ(Value("select count(*) from pg_replication_slots"), "0");
  EXPECT_EQ(Value("select count(*) from pg_publication"), "0");
}

// proves A10, A14, A18
TEST_F(PollSourceTest, ACursorThatCannotBeFollowedIsRefusedByName) {
  Exec(
      {"create table item (id int primary key, at timestamptz not null, held interval not null, "
       "name text not null, load float8 not null, flag boolean not null, v int, n int not null)",
       "insert into item select i, now(), '1s', 'n', 1, true, i, i from generate_series(1, 2000) i",
       "create table keyless (id int, at timestamptz not null)",
       "insert into keyless values (1, now())", "analyze"});
  // Time that a process counts for itself has no place among them.
  for (const std::string cursor : {"held", "name", "load", "flag", "missing"}) {
    const std::string refusal =
        Refusal({.tables = {fmt::format("{{table: public.item, cursor: {}}}", cursor)}});
    EXPECT_THAT(refusal, HasSubstr("CURSOR_COLUMN_UNUSABLE")) << cursor;
    EXPECT_THAT(refusal, HasSubstr(cursor));
  }
  // Without a key, and with one that tells nothing apart, a page could end within a tie.
  EXPECT_THAT(Refusal({.tables = {"{table: public.keyless, cursor: at}"}}), HasSubstr("key"));
  EXPECT_THAT(Refusal({.tables = {"{table: public.item, cursor: at, key: [v]}"}}),
              HasSubstr("key"));
  EXPECT_THAT(Refusal({.tables = {"{table: public.item, cursor: at, key: [n]}"}}),
              HasSubstr("unique"));
  EXPECT_THAT(Refusal({.tables = {"{table: public.nothing, cursor: at}"}}),
              HasSubstr("SOURCE_TABLE_MISSING"));
}

// proves A14
TEST_F(PollSourceTest, AMissingIndexIsNamedWithItsStatementAndRefusedWhereItMatters) {
  Exec({"create table item (id int primary key, at timestamptz not null)",
        "insert into item select i, now() - i * interval '1 s' from generate_series(1, 2000) i",
        // Of no use for (at, id).
        "create index on item (id, at)", "create index on item (at) where id > 5", "analyze"});
  PollOptions options{.tables = {"{table: public.item, cursor: at}"},
                      .lines = {"unindexed_rows_max: 1000"}};
  const std::string refusal = Refusal(options);
  EXPECT_THAT(refusal, HasSubstr("CURSOR_INDEX_MISSING"));
  std::smatch statement;
  ASSERT_TRUE(std::regex_search(refusal, statement,
                                std::regex("CREATE INDEX [^;]*\\(\"?at\"?, \"?id\"?\\)")))
      << refusal;
  options.lines = {"unindexed_rows_max: 3000"};
  EXPECT_TRUE(Passes(options));
  std::string sql = statement.str();
  // Not within what the helper runs as one transaction; the index is the same.
  if (const size_t at = sql.find("CONCURRENTLY "); at != std::string::npos) sql.erase(at, 13);
  Exec({sql, "analyze"});
  options.lines = {"unindexed_rows_max: 1000"};
  EXPECT_TRUE(Passes(options));
}

// Statistics of the source, not time: 100 rows in the window of 20,000.
// proves A15
TEST_F(PollSourceTest, AnIdlePollReadsTheWindowAndNothingElse) {
  Exec({"create table item (id int primary key, at timestamptz not null, v text)",
        "create index on item (at, id)",
        "insert into item select i, now() - i * interval '1 s', repeat('v', 50) from "
        "generate_series(1, 20000) i",
        "analyze"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {"overlap: 100s", "page_rows: 40"}}});
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().WaitForPolls(15));
  const uint64_t window = feed().Status().poll().last_rows_read();
  EXPECT_GE(window, 99u);
  EXPECT_LE(window, 101u);
  // Sessions report what they did a second late.
  const uint64_t polls_before = feed().Status().poll().polls();
  const uint64_t before = RowsRead("item");
  ASSERT_TRUE(feed().WaitForPolls(30));
  const uint64_t read = RowsRead("item") - before;
  const uint64_t polls = feed().Status().poll().polls() - polls_before + 15;
  // A page may look for one row more than it takes.
  EXPECT_LE(read, polls * (window + 10)) << "in " << polls << " polls";
  EXPECT_GT(read, 0u);
}

class PollStandbyTest : public PollFixture {
 protected:
  void SetUp() override {
    SetUpPostgres({});
    if (HasFatalFailure()) return;
    auto standby = LivePostgres::CreateStandby(*postgres_, {{"max_standby_streaming_delay", "0"}});
    ASSERT_TRUE(standby.ok()) << standby.status();
    standby_ = *std::move(standby);
  }
  // The standby has everything that was committed.
  ::testing::AssertionResult Replayed() {
    const std::string lsn = Value("select pg_current_wal_insert_lsn()");
    return WaitUntil(
        [&] {
          return standby_->QueryValue("select pg_last_wal_replay_lsn() >= '" + lsn + "'")
                     .value_or("") == "t";
        },
        PolledFeed::kDeadline);
  }
};

// A replica for reports: told is what it has replayed, however far it is behind.
TEST_F(PollStandbyTest, AReportingReplicaIsPolled) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item select i, now(), 0 from generate_series(1, 20) i"});
  ASSERT_TRUE(Replayed());
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {"key_scan: {rows_per_second: 100000}"}}});
  if (HasFatalFailure()) return;
  Exec({"insert into item values (100, now(), 1); update item set at = now(), v = 1 where id = 1"});
  ASSERT_TRUE(Replayed());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"),
              ::testing::UnorderedElementsAre("insert 100", "update 1"));
  // Replay stands still, and what is written meanwhile is below the bound of nobody.
  ASSERT_TRUE(standby_->Exec("select pg_wal_replay_pause()").ok());
  Exec({"insert into item values (101, now(), 1)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ::testing::IsEmpty());
  ASSERT_TRUE(standby_->Exec("select pg_wal_replay_resume()").ok());
  Exec({"delete from item where id = 5", "vacuum item"});
  ASSERT_TRUE(Replayed());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("insert 101"));
  ASSERT_TRUE(feed().Scan("public.item"));
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("delete 5"));
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
  EXPECT_EQ(PolledFeed::Complaints(feed().Status()), "");
}

}  // namespace
}  // namespace tidemark::testing
