// Rows that move without a message: found within a bounded time, and told as what really differs;
// or a named error state of that table, while the others flow.
#include <gmock/gmock.h>
#include <signal.h>

#include <utility>

#include "tests/end_to_end/table_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class TableMovementTest : public TableFixture {
 protected:
  // "insert id='1'" for every change of a table from number `from` on.
  std::vector<std::string> Ops(const std::string& table, size_t from) {
    std::vector<std::string> ops;
    const auto changes = ChangesOf(table);
    for (size_t i = from; i < changes.size(); ++i) {
      ops.push_back(changes[i].op + " " + DescribeColumns(changes[i].columns));
    }
    return ops;
  }

  // No look at the catalog that has not begun comes to its end before LetLooksGo: the process that
  // serves them is stopped, between two of them.
  void HoldLooks() {
    ASSERT_TRUE(WaitUntil(
        [&] {
          const auto pid = postgres_->QueryValue(
              "select pid from pg_stat_activity where application_name like 'tidemark/%' and state "
              "= 'idle' and query = 'COMMIT'");
          if (!pid.ok() || pid->empty()) return false;
          looking_ = std::stoi(*pid);
          return kill(looking_, SIGSTOP) == 0;
        },
        kDeadline));
  }
  void LetLooksGo() { kill(std::exchange(looking_, 0), SIGCONT); }
  void TearDown() override {
    if (looking_ != 0) LetLooksGo();
  }

  // The subscriber's rows become the table's.
  ::testing::AssertionResult WaitUntilEqual(const std::string& table) {
    return WaitUntil(
        [&] {
          CatchUp();
          return Here(table) == There(table);
        },
        kDeadline,
        [&] {
          return ::testing::PrintToString(Here(table)) + " here, at the source " +
                 ::testing::PrintToString(There(table)) + StatusOf(table).ShortDebugString();
        });
  }

  pid_t looking_ = 0;
};

constexpr char kPartitioned[] =
    "create table pa (id int, k int, a text, primary key (id, k)) partition by list (k); "
    "create table pa1 partition of pa for values in (1); "
    "create table pa2 partition of pa for values in (2); "
    "insert into pa values (1, 1, 'one'), (2, 2, 'two'), (3, 2, 'two')";

// proves B014, B015
TEST_F(TableMovementTest, PartitionsComeAndGo) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  Exec({"create table pa4 partition of pa for values in (4)",
        "insert into pa values (4, 4, 'new')"});
  CatchUp();
  EXPECT_EQ(Here("public.pa"), There("public.pa")) << "rows of a new partition, within one commit";
  size_t before = ChangesOf("public.pa").size();
  Exec({"create table pa3 (id int, k int, a text, primary key (id, k))",
        "insert into pa3 values (7, 3, 'pre')",
        "alter table pa attach partition pa3 for values in "
        "(3)"});
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
  EXPECT_THAT(Ops("public.pa", before), ElementsAre("insert a='pre' id='7' k='3'"));
  before = ChangesOf("public.pa").size();
  Exec({"alter table pa detach partition pa2"});
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
  EXPECT_THAT(Ops("public.pa", before),
              UnorderedElementsAre("delete id='2' k='2'", "delete id='3' k='2'"));
  before = ChangesOf("public.pa").size();
  Exec({"drop table pa1"});
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
  EXPECT_THAT(Ops("public.pa", before), ElementsAre("delete id='1' k='1'"));
}

// proves B016: of one partition there is no message under the root's name.
TEST_F(TableMovementTest, TruncatedPartition) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  const size_t before = ChangesOf("public.pa").size();
  Exec({"truncate pa2"});
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
  EXPECT_THAT(Ops("public.pa", before),
              UnorderedElementsAre("delete id='2' k='2'", "delete id='3' k='2'"));
  Exec({"truncate pa", "insert into pa values (5, 1, 'after')"});
  CatchUp();
  EXPECT_THAT(Here("public.pa"), ElementsAre("a='after' id='5' k='1'"));
}

// proves B014: its rows are read, and its changes are in no log.
TEST_F(TableMovementTest, APartitionThatIsNotLogged) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  Exec({"alter table pa2 set unlogged", "update pa set a = 'silent' where id = 2"});
  ASSERT_TRUE(WaitForState("public.pa", v1::TABLE_FOLLOW_STATE_FAILED, "SOURCE_SETTING"));
  const std::string message = StatusOf("public.pa").error().message();
  EXPECT_THAT(message, HasSubstr("public.pa2 is UNLOGGED"));
  EXPECT_THAT(message, HasSubstr("ALTER TABLE \"public\".\"pa2\" SET LOGGED"));
  Exec({"update pa set a = 'told' where id = 1"});
  CatchUp();
  EXPECT_THAT(
      Here("public.pa"),
      UnorderedElementsAre("a='told' id='1' k='1'", "a='two' id='2' k='2'", "a='two' id='3' k='2'"))
      << "other partitions and tables flow";
  Exec({"alter table pa2 set logged"});
  ASSERT_TRUE(WaitForState("public.pa", v1::TABLE_FOLLOW_STATE_FOLLOWED, "were in no log"));
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
  Exec({"update pa set a = 'again' where id = 2"});
  CatchUp();
  EXPECT_EQ(Here("public.pa"), There("public.pa"));
  Exec({"create unlogged table pa4 partition of pa for values in (4)"});
  ASSERT_TRUE(WaitForState("public.pa", v1::TABLE_FOLLOW_STATE_FAILED, "public.pa4 is UNLOGGED"));
  Exec({"alter table pa detach partition pa4"});
  ASSERT_TRUE(WaitForState("public.pa", v1::TABLE_FOLLOW_STATE_FOLLOWED));
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
}

// proves B017
TEST_F(TableMovementTest, RewriteThatChangesValues) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, v int)", "insert into t values (1, 10), (2, 20)",
        "create table same (id int primary key, v int)", "insert into same values (1, 10)"});
  StartServer();
  CatchUp();
  Exec({"alter table t alter v type bigint using v + 1", "update t set v = v where id = 1",
        "alter table same alter v type int using v + 1"});
  ASSERT_TRUE(WaitUntilEqual("public.t"));
  EXPECT_THAT(Here("public.t"), ElementsAre("id='1' v='11'", "id='2' v='21'"));
  ASSERT_TRUE(WaitUntilEqual("public.same")) << "the same type, and not a word in the stream";
}

// proves B019
TEST_F(TableMovementTest, ColumnsDroppedAddedAndRenamed) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, w int)", "insert into t values (1, 7), (2, 7)",
        "create table d (id int primary key)", "insert into d values (1), (2)",
        "create table r (id int primary key, a text)", "insert into r values (1, 'x'), (2, null)",
        "create table n (id int primary key)", "insert into n values (1)"});
  StartServer();
  CatchUp();
  Exec(
      {"begin; alter table t drop column w; alter table t add column w text; insert into t values "
       "(3, 't'); commit",
       "alter table d add column c int default 5", "alter table r rename column a to b",
       "alter table n add column empty text", "insert into n values (2, 'b')"});
  for (const char* table : {"public.t", "public.d"}) ASSERT_TRUE(WaitUntilEqual(table));
  // A row of before in which the renamed column is NULL says the same under the new name.
  ASSERT_TRUE(WaitForState("public.r", v1::TABLE_FOLLOW_STATE_FOLLOWED, "renamed"));
  CatchUp();
  EXPECT_THAT(Here("public.r"), ElementsAre("a=NULL id='2'", "b='x' id='1'"));
  EXPECT_THAT(Here("public.t"), ElementsAre("id='1' w=NULL", "id='2' w=NULL", "id='3' w='t'"));
  EXPECT_THAT(Here("public.d"), ElementsAre("c='5' id='1'", "c='5' id='2'"));
  EXPECT_EQ(StatusOf("public.n").rows_read(), 0u) << "a column without values is no reason to read";
}

// proves B019: rows that were not touched in between are stored with what the column held once.
TEST_F(TableMovementTest, AColumnThatCameBackLater) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, w int)", "insert into t values (1, 7), (2, null)"});
  StartServer();
  CatchUp();
  Exec({"alter table t drop column w"});
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  Exec({"alter table t add column w int"});
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  CatchUp();
  EXPECT_THAT(Here("public.t"), ElementsAre("id='1' w=NULL", "id='2' w=NULL"));
}

// proves B019, B021: whoever looks at both ends sees nothing, and rows were told under other names
// and types, or not at all.
TEST_F(TableMovementTest, WhatWasOtherwiseForAMoment) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)", "insert into t values (1, 'x'), (2, 'y')",
        "create table lent (id int primary key, a text)", "insert into lent values (1, 'x')",
        "create table typed (id int primary key)", "insert into typed values (1)"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.t, public.lent, public.typed, public.marker]"};
  StartServer(options);
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  Exec({"alter table t rename a to b", "update t set id = id + 10", "alter table t rename b to a",
        "alter table lent rename to away", "update away set a = 'z'",
        "alter table away rename to lent", "alter table typed add c timestamp",
        "update typed set c = timestamp '2026-01-01'",
        "alter table typed alter c type timestamptz using c"});
  for (const char* table : {"public.t", "public.lent", "public.typed"}) {
    ASSERT_TRUE(WaitUntilEqual(table));
  }
  EXPECT_THAT(Here("public.t"), ElementsAre("a='x' id='11'", "a='y' id='12'"));
}

// proves B019, B014: the catalog notes the value of the new column at the partitions alone.
TEST_F(TableMovementTest, AColumnWithAValueForAllPartitions) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  Exec({"alter table pa add column c int default 5"});
  ASSERT_TRUE(WaitUntilSettled("public.pa"));
  CatchUp();
  EXPECT_EQ(Here("public.pa"), There("public.pa"));
}

// proves B015: between two looks; the same parts in the same files, and other rows.
TEST_F(TableMovementTest, APartitionThatWasChangedOnItsOwn) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.pa"));
  Exec(
      {"begin; alter table pa detach partition pa2; update pa2 set a = 'alone' where id = 2; "
       "delete from pa2 where id = 3; alter table pa attach partition pa2 for values in (2); "
       "commit"});
  ASSERT_TRUE(WaitUntilSettled("public.pa"));
  CatchUp();
  EXPECT_EQ(Here("public.pa"), There("public.pa"));
}

// proves B014, B015: between two looks a partition comes, is written to and goes, or is dropped.
TEST_F(TableMovementTest, APartitionThatWasThereForAMoment) {
  SetUpPostgres();
  Exec({kPartitioned, "create table pa3 (id int, k int, a text, primary key (id, k))",
        "insert into pa3 values (7, 3, 'pre')"});
  StartServer();
  // While it is a partition, its rows are the root's.
  CallWitness(tidemark_->address(), "main", nullptr);
  CatchUp();
  const auto stays_equal = [&](const std::vector<std::string>& statements) {
    ASSERT_TRUE(WaitUntilSettled("public.pa"));
    HoldLooks();
    Exec(statements);
    CatchUp();
    EXPECT_NE(Here("public.pa"), There("public.pa")) << "nobody looked yet";
    LetLooksGo();
    ASSERT_TRUE(WaitUntilSettled("public.pa"));
    CatchUp();
    EXPECT_EQ(Here("public.pa"), There("public.pa")) << statements[0];
  };
  stays_equal({"alter table pa attach partition pa3 for values in (3)",
               "insert into pa values (8, 3, 'in')", "update pa set a = 'x' where id = 7",
               "alter table pa detach partition pa3"});
  stays_equal({"create table pa4 partition of pa for values in (4)",
               "insert into pa values (9, 4, 'in')", "drop table pa4"});
  stays_equal(
      {"begin; create table pa4 partition of pa for values in (4); insert into pa values "
       "(10, 4, 'in'); alter table pa detach partition pa4; drop table pa4; commit"});
  stays_equal({"create table pa5 partition of pa for values in (5) partition by range (id)",
               "create table pa5a partition of pa5 for values from (0) to (100)",
               "insert into pa values (11, 5, 'deep')", "drop table pa5"});
}

// proves B014, R28: what the stream told of it is not forgotten with the server.
TEST_F(TableMovementTest, APartitionThatWentWhileTheServerWasDead) {
  SetUpPostgres();
  Exec({kPartitioned});
  StartServer();
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.pa"));
  HoldLooks();
  Exec(
      {"create table pa4 partition of pa for values in (4)", "insert into pa values (9, 4, 'in')"});
  CatchUp();
  tidemark_->Kill9();
  LetLooksGo();
  Exec({"drop table pa4"});
  StartServer();
  ASSERT_TRUE(WaitUntilEqual("public.pa"));
}

// proves B014, B079: rows of which the stream never said a word.
TEST_F(TableMovementTest, APartitionThatIsThereForAMomentWhileItsRootIsRead) {
  SetUpPostgres();
  Exec({kPartitioned, "insert into pa select i, 1, 'row ' || i from generate_series(10, 20000) i",
        "create table pa3 (id int, k int, a text, primary key (id, k))",
        "insert into pa3 select i, 3, 'came' from generate_series(15000, 20000) i"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"catalog_period: 1h"};
  StartServer(options);
  CatchUp();
  ASSERT_TRUE(StartSnapshot("public.pa").ok());
  ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.pa").rows_read() > 2000; }, kDeadline));
  Exec({"alter table pa attach partition pa3 for values in (3)"});
  ASSERT_EQ(StatusOf("public.pa").state(), v1::TABLE_FOLLOW_STATE_READING);
  ASSERT_TRUE(WaitUntil(
      [&] {
        const v1::TableStatus status = StatusOf("public.pa");
        return status.state() == v1::TABLE_FOLLOW_STATE_FOLLOWED || status.rows_read() > 18000;
      },
      kDeadline));
  Exec({"alter table pa detach partition pa3"});
  // An order makes it look.
  const absl::Time detached = absl::Now();
  ASSERT_TRUE(StartSnapshot("public.marker").ok());
  ASSERT_TRUE(WaitUntilSettled("public.pa", detached));
  CatchUp();
  EXPECT_TRUE(Here("public.pa") == There("public.pa")) << Here("public.pa").size() << " rows";
}

// proves B017: not a byte on the disk changes, and the values are others.
TEST_F(TableMovementTest, ATypeThatReadsTheSameBytesOtherwise) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, at timestamp)",
        "insert into t values (1, '2026-03-01 12:00:00')"});
  StartServer();
  CatchUp();
  Exec({"alter table t alter at type timestamptz"});
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  CatchUp();
  EXPECT_THAT(Here("public.t"), ElementsAre("at='2026-03-01 12:00:00+00' id='1'"));
}

// proves B021: under replica identity full, the stream does not say what the key is, and the
// catalog knows it no more.
TEST_F(TableMovementTest, LastChangesOfATableThatIsGone) {
  SetUpPostgres();
  Exec({"create table t (a int, b int, c text, primary key (b, a))",
        "alter table t replica identity full", "insert into t values (1, 1, 'x'), (2, 1, 'y')"});
  StartServer();
  CatchUp();
  tidemark_->Kill9();
  Exec({"update t set c = 'z' where a = 1", "delete from t where a = 2",
        "insert into t values (3, 3, 'w')", "drop table t"});
  StartServer();
  CatchUp();
  EXPECT_THAT(Here("public.t"), ElementsAre("a='1' b='1' c='z'", "a='3' b='3' c='w'"));
}

// proves B021: a table of which nothing is in the stream yet is not said to be followed.
TEST_F(TableMovementTest, AReplacedTableIsFollowedOnceItsRowsAreTold) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)", "insert into t values (1, 'old')"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.t, public.marker]"};
  StartServer(options);
  CatchUp();
  for (int round = 0; round < 3; ++round) {
    Exec(
        {fmt::format("begin; drop table t; create table t (id int primary key, a text); insert "
                     "into t values ({}, 'new'); commit",
                     round)});
    ASSERT_TRUE(WaitUntilSettled("public.t"));
    CatchUp();
    EXPECT_EQ(Here("public.t"), There("public.t"));
  }
}

// proves B015, B079: what was told of a table that is new goes again where its rows moved before
// the reading came to its end.
TEST_F(TableMovementTest, RowsThatMoveWhileATableIsReadForTheFirstTime) {
  SetUpPostgres();
  Exec({"create table pa (id int, k int, a text, primary key (id, k)) partition by list (k)",
        "create table pa1 partition of pa for values in (1)",
        "create table pa2 partition of pa for values in (2)",
        "insert into pa select i, 1 + i % 2, 'row ' || i from generate_series(1, 60000) i"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.marker]"};
  StartServer(options);
  ASSERT_TRUE(AddTable("public.pa").ok());
  ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.pa").rows_read() > 2000; }, kDeadline));
  Exec({"alter table pa detach partition pa2"});
  ASSERT_EQ(StatusOf("public.pa").state(), v1::TABLE_FOLLOW_STATE_READING);
  ASSERT_TRUE(WaitUntilSettled("public.pa"));
  CatchUp();
  EXPECT_TRUE(Here("public.pa") == There("public.pa")) << Here("public.pa").size() << " rows";
}

// proves B021
TEST_F(TableMovementTest, ReplacedTables) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)",
        "insert into t values (1, 'old'), (2, 'same'), (3, 'gone')",
        "create table again (id int primary key)", "insert into again values (1), (2)"});
  StartServer();
  CatchUp();
  Exec(
      {"create table t_new (id int primary key, a text)",
       "insert into t_new values (1, 'new'), (2, 'same'), (4, 'more')",
       "begin; drop table t; alter table t_new rename to t; commit",
       "begin; drop table again; create table again (id int primary key); insert into again values "
       "(2), (3); commit"});
  ASSERT_TRUE(WaitUntilEqual("public.t"));
  ASSERT_TRUE(WaitUntilEqual("public.again"));
  Exec({"insert into t values (5, 'later')", "delete from again where id = 3"});
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
  EXPECT_EQ(Here("public.again"), There("public.again"));
}

// proves B021: found as well where it happened while nobody looked.
TEST_F(TableMovementTest, WhatMovedWhileTheServerWasDown) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)", "insert into t values (1, 'old')"});
  StartServer();
  CatchUp();
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_FOLLOWED));
  tidemark_->Kill9();
  Exec({"create table t_new (id int primary key, a text)", "insert into t_new values (2, 'new')",
        "begin; drop table t; alter table t_new rename to t; commit"});
  StartServer();
  ASSERT_TRUE(WaitUntilEqual("public.t"));
}

// proves B065: the publication was changed by hand.
TEST_F(TableMovementTest, PublicationChangedByHand) {
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "insert into t values (1)",
        "create table other (id int primary key)",
        "create publication tidemark_main for table t, other, marker",
        // Not ours: nothing is mended that somebody else decides.
        "create role capture login replication",
        "grant select on all tables in schema public to capture"});
  LiveTidemarkOptions options;
  options.user = "capture";
  options.postgres_lines = {"tables: [public.t, public.other, public.marker]"};
  StartServer(options);
  CatchUp();
  Exec({"alter publication tidemark_main drop table t", "insert into t values (2)",
        "insert into other values (1)"});
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_FAILED, "PUBLICATION_MISSING"));
  CatchUp();
  EXPECT_EQ(Here("public.other"), There("public.other")) << "the others flow";
  const std::string message = StatusOf("public.t").error().message();
  const std::string sql = message.substr(message.find("ALTER PUBLICATION"));
  Exec({"delete from t where id = 1", sql});
  ASSERT_TRUE(WaitUntilEqual("public.t"));
  Exec({"insert into t values (3)"});
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
}

// proves B065: whoever looks at both ends sees the same table in the same publication.
TEST_F(TableMovementTest, PublicationsThatLeaveSomethingOutForAMoment) {
  SetUpPostgres();
  Exec({"create schema s", "create table t (id int primary key)", "insert into t values (1)",
        "create table s.other (id int primary key)",
        "create publication tidemark_main for table t, marker, tables in schema s"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.t, public.marker, 's.*']"};
  StartServer(options);
  CatchUp();
  const auto is_found = [&](const std::string& table, const std::vector<std::string>& statements) {
    ASSERT_TRUE(WaitUntilSettled(table));
    HoldLooks();
    Exec(statements);
    CatchUp();
    EXPECT_NE(Here(table), There(table)) << statements[0];
    LetLooksGo();
    EXPECT_TRUE(WaitUntilEqual(table)) << statements[0];
  };
  is_found("public.t", {"alter publication tidemark_main drop table t", "insert into t values (2)",
                        "alter publication tidemark_main add table t"});
  is_found("s.other", {"alter publication tidemark_main drop tables in schema s",
                       "insert into s.other values (1)",
                       "alter publication tidemark_main add tables in schema s"});
  is_found(
      "public.t",
      {"alter publication tidemark_main set (publish = 'insert')", "delete from t where id = 1",
       "alter publication tidemark_main set (publish = 'insert, update, delete, truncate')"});
  is_found("s.other", {"alter table s.other set schema public", "insert into other values (5)",
                       "alter table other set schema s"});
  is_found("public.t",
           {"alter publication tidemark_main set table t where (id > 5), marker",
            "insert into t values (3)", "alter publication tidemark_main set table t, marker",
            "alter publication tidemark_main add tables in schema s"});
}

// proves B065, H4: of a transaction that was open meanwhile, only what it wrote then is sent.
TEST_F(TableMovementTest, AWriterWhileItsTableIsNotPublished) {
  SetUpPostgres();
  Exec({"create table t (id int primary key)",
        "create publication tidemark_main for table t, marker"});
  StartServer();
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  auto writer = postgres_->Connect();
  ASSERT_TRUE(writer.ok());
  HoldLooks();
  Exec({"alter publication tidemark_main drop table t"});
  ASSERT_TRUE((*writer)->Exec("begin; insert into t values (1)").ok());
  Exec({"alter publication tidemark_main add table t"});
  LetLooksGo();
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_READING, "waiting for transaction"));
  ASSERT_TRUE((*writer)->Exec("insert into t values (2); commit").ok());
  ASSERT_TRUE(WaitUntilEqual("public.t"));
}

// proves B021, B019: and with the server dead in the middle.
TEST_F(TableMovementTest, WhatWasOtherwiseWhileTheServerDied) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)", "insert into t values (1, 'x'), (2, 'y')",
        "create table lent (id int primary key, a text)", "insert into lent values (1, 'x')"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.t, public.lent, public.marker]"};
  StartServer(options);
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  HoldLooks();
  Exec({"alter table t rename a to b", "update t set id = id + 10",
        "alter table lent rename to away", "update away set a = 'z'"});
  CatchUp();
  tidemark_->Kill9();
  LetLooksGo();
  Exec({"alter table t rename b to a", "alter table away rename to lent"});
  StartServer();
  for (const char* table : {"public.t", "public.lent"}) ASSERT_TRUE(WaitUntilEqual(table));
  EXPECT_THAT(Here("public.t"), ElementsAre("a='x' id='11'", "a='y' id='12'"));
}

TEST_F(TableMovementTest, AnotherReplicaIdentity) {
  SetUpPostgres();
  Exec({"create table t (a int not null, b int not null unique, c text, primary key (a))",
        "insert into t values (1, 10, 'x'), (2, 20, 'y')"});
  StartServer();
  CatchUp();
  Exec({"alter table t replica identity using index t_b_key"});
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_FOLLOWED, "other columns"));
  Exec({"update t set b = 11 where a = 1", "delete from t where b = 20",
        "insert into t values (3, 30, 'z')"});
  ASSERT_TRUE(WaitUntilEqual("public.t"));
}

// proves B023, B016, B041, B043, B051
TEST_F(TableMovementTest, WhatTheStreamTellsNeedsNoLook) {
  SetUpPostgres({.settings = {{"max_prepared_transactions", "10"}}});
  Exec({"create table a1 (id serial primary key)",
        "create table a2 (id int primary key, a1 int references a1 on delete cascade)",
        "insert into a1 values (1), (2)", "insert into a2 values (10, 1), (20, 2)"});
  StartServer();
  CatchUp();
  Exec({"delete from a1 where id = 1"});
  CatchUp();
  EXPECT_EQ(Here("public.a2"), There("public.a2"));
  const size_t before = ChangesOf("public.a1").size();
  Exec(
      {"begin; insert into a1 values (3); truncate a1 restart identity cascade; insert into a1 "
       "values (4); commit",
       "begin",
       "insert into a1 values (50)",
       "savepoint a",
       "insert into a1 values (51)",
       "rollback to a",
       "insert into a1 values (52)",
       "savepoint b",
       "insert into a1 values (53)",
       "release b",
       "commit",
       "begin",
       "insert into a1 values (60)",
       "prepare transaction 'g1'",
       "insert into a1 values (61)",
       "begin",
       "insert into a1 values (62)",
       "prepare transaction 'g2'",
       "commit prepared 'g1'",
       "rollback prepared 'g2'"});
  CatchUp();
  EXPECT_THAT(Ops("public.a1", before),
              ElementsAre("insert id='3'", "truncate ", "insert id='4'", "insert id='50'",
                          "insert id='52'", "insert id='53'", "insert id='61'", "insert id='60'"));
  EXPECT_THAT(Here("public.a2"), IsEmpty());
  const auto transactions = SeenTransactions(stream_);
  ASSERT_TRUE(transactions.ok());
  size_t truncates = 0;
  for (const RecordedTransaction& transaction : *transactions) {
    for (const RecordedChange& change : transaction.changes) {
      if (change.op != "truncate") continue;
      ++truncates;
      EXPECT_EQ(transaction.changes.size(), 4u) << "all of it in one commit";
    }
  }
  EXPECT_EQ(truncates, 2u) << "one for each table";
}

}  // namespace
}  // namespace tidemark::testing
