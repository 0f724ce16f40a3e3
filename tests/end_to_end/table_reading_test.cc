// Tables that are added, removed and read again while a feed runs.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/end_to_end/row_writer.h"
#include "tests/end_to_end/table_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;

class TableReadingTest : public TableFixture {};

LiveTidemarkOptions Only(const std::string& tables) {
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [" + tables + "]"};
  return options;
}

// proves B065, H4: what was there before comes as well.
TEST_F(TableReadingTest, AnAddedTableComesWhole) {
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "create table u (id int primary key, a text)",
        "insert into u values (1, 'a'), (2, 'b'), (3, 'c')"});
  StartServer(Only("public.t, public.marker"));
  ASSERT_TRUE(AddTable("public.u").ok());
  Exec({"insert into u values (4, 'd')", "update u set a = 'bb' where id = 2"});
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "new to the feed"));
  CatchUp();
  EXPECT_EQ(Here("public.u"), There("public.u"));
  EXPECT_THAT(Here("public.u"),
              ElementsAre("a='a' id='1'", "a='bb' id='2'", "a='c' id='3'", "a='d' id='4'"));
  // And it stays in the feed.
  tidemark_->Kill9();
  StartServer();
  Exec({"delete from u where id = 1", "insert into u values (5, 'e')"});
  CatchUp();
  EXPECT_EQ(Here("public.u"), There("public.u"));
  EXPECT_EQ(StatusOf("public.u").state(), kFollowed);
}

// proves B065: a child is a table of its own, whether it came to the publication before its parent
// or never.
TEST_F(TableReadingTest, AParentComesWithoutItsChildren) {
  SetUpPostgres();
  Exec({"create table parent (id int primary key, a text)",
        "create table keyed (primary key (id)) inherits (parent)",
        "create table keyless () inherits (parent)", "insert into parent values (1, 'parent')",
        "insert into keyed values (2, 'keyed')", "insert into keyless values (3, 'keyless')"});
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable("public.keyed").ok());
  ASSERT_TRUE(WaitForState("public.keyed", kFollowed, "new to the feed"));
  ASSERT_TRUE(AddTable("public.parent").ok());
  ASSERT_TRUE(WaitForState("public.parent", kFollowed, "new to the feed"));
  Exec({"update parent set a = a || '!'", "delete from keyless"});
  CatchUp();
  EXPECT_THAT(Here("public.parent"), ElementsAre("a='parent!' id='1'"));
  EXPECT_THAT(Here("public.keyed"), ElementsAre("a='keyed!' id='2'"));
  EXPECT_THAT(Here("public.keyless"), IsEmpty());
}

// proves B083: the rows that came before anybody knew of the table.
TEST_F(TableReadingTest, ATableThatFitsAPatternIsFoundWithItsFirstRows) {
  SetUpPostgres();
  Exec({"create table app_a (id int primary key)"});
  StartServer(Only("'public.app_*', public.marker"));
  Exec({"create table app_x (id int primary key, a int)", "insert into app_x values (1, 1)",
        "update app_x set a = 2"});
  ASSERT_TRUE(WaitForState("public.app_x", kFollowed, "new to the feed"));
  Exec({"insert into app_x values (2, 2)"});
  CatchUp();
  EXPECT_EQ(Here("public.app_x"), There("public.app_x"));
}

// What a transaction wrote before the table was published is never sent; whoever wrote elsewhere
// only is not waited for.
TEST_F(TableReadingTest, OnlyWritersOfTheTableHoldItsReadingUp) {  // proves H4
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "create table other (id int primary key)",
        "create table u (id int, part int, primary key (id, part)) partition by list (part)",
        "create table u_1 partition of u for values in (1)"});
  StartServer(Only("public.t, public.marker"));
  auto writer = postgres_->Connect();
  auto elsewhere = postgres_->Connect();
  ASSERT_TRUE(writer.ok() && elsewhere.ok());
  ASSERT_TRUE((*elsewhere)->Exec("begin; insert into other values (1)").ok());
  ASSERT_TRUE((*writer)->Exec("begin; insert into u_1 values (1, 1)").ok());
  ASSERT_TRUE(AddTable("public.u").ok());
  ASSERT_TRUE(WaitForState("public.u", v1::TABLE_FOLLOW_STATE_READING, "waiting for transaction"));
  ASSERT_TRUE((*writer)->Exec("insert into u values (2, 1); commit").ok());
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "new to the feed"));
  ASSERT_TRUE((*elsewhere)->Exec("commit").ok());
  CatchUp();
  EXPECT_EQ(Here("public.u"), There("public.u"));
  EXPECT_THAT(Here("public.u"), ElementsAre("id='1' part='1'", "id='2' part='1'"));
}

// It began when the transaction that publishes the table had begun already, and no other one has
// ended since.
TEST_F(TableReadingTest, AWriterFromBeforeThePublicationHoldsItUp) {  // proves H4
  SetUpPostgres();
  Exec({"create table u (id int primary key)", "create publication tidemark_main for table marker",
        // The publication is not its own.
        "create role capture login replication",
        "grant select on all tables in schema public to capture"});
  LiveTidemarkOptions options = Only("public.marker");
  options.user = "capture";
  StartServer(options);
  ASSERT_TRUE(AddTable("public.u").ok());
  ASSERT_TRUE(WaitForState("public.u", v1::TABLE_FOLLOW_STATE_FAILED, "PUBLICATION_MISSING"));
  auto owner = postgres_->Connect();
  auto writer = postgres_->Connect();
  ASSERT_TRUE(owner.ok() && writer.ok());
  ASSERT_TRUE((*owner)->Exec("begin; alter publication tidemark_main add table u").ok());
  ASSERT_TRUE((*writer)->Exec("begin; insert into u values (1)").ok());
  ASSERT_TRUE((*owner)->Exec("commit").ok());
  ASSERT_TRUE(WaitForState("public.u", v1::TABLE_FOLLOW_STATE_READING, "waiting for transaction"));
  ASSERT_TRUE((*writer)->Exec("commit").ok());
  ASSERT_TRUE(WaitForState("public.u", kFollowed));
  CatchUp();
  EXPECT_EQ(Here("public.u"), There("public.u"));
}

// Nothing that is missing is passed over: what a person has to do is said, and the others go on.
TEST_F(TableReadingTest, WhatCannotBeAddedIsSaid) {  // proves B065, B083
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "create table keyless (a int)"});
  StartServer(Only("public.t, public.marker"));
  ASSERT_TRUE(AddTable("public.keyless").ok());
  ASSERT_TRUE(AddTable("public.nowhere").ok());
  ASSERT_TRUE(WaitForState("public.keyless", v1::TABLE_FOLLOW_STATE_FAILED, "SOURCE_SETTING"));
  ASSERT_TRUE(
      WaitForState("public.nowhere", v1::TABLE_FOLLOW_STATE_FAILED, "SOURCE_TABLE_MISSING"));
  Exec({"insert into t values (1)"});
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
  Exec({"create table nowhere (id int primary key)", "insert into nowhere values (7)"});
  ASSERT_TRUE(WaitForState("public.nowhere", kFollowed));
  CatchUp();
  EXPECT_EQ(Here("public.nowhere"), There("public.nowhere"));
  EXPECT_EQ(AddTable("public.t").error_code(), grpc::StatusCode::OK) << "it is there already";
  EXPECT_EQ(AddTable("public.*").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(AddTable("").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// It was captured, or never was: that it is there no more is not what is said of it.
TEST_F(TableReadingTest, WhatIsNotLoggedIsSaidToBe) {  // proves B083
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "create view v as select * from t",
        "create publication tidemark_main for all tables"});
  StartServer(Only("public.t, public.marker"));
  CatchUp();
  ASSERT_TRUE(AddTable("public.v").ok());
  ASSERT_TRUE(WaitForState("public.v", v1::TABLE_FOLLOW_STATE_FAILED, "public.v is a view"));
  Exec({"alter table t set unlogged", "insert into t values (1)"});
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_FAILED, "public.t is UNLOGGED"));
  EXPECT_EQ(StatusOf("public.t").error().reason(), "SOURCE_SETTING");
  Exec({"alter table t set logged"});
  ASSERT_TRUE(WaitForState("public.t", kFollowed));
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
}

TEST_F(TableReadingTest, ARemovedTableIsNotCapturedAnyMore) {  // proves B065
  SetUpPostgres();
  Exec({"create table t (id int primary key)", "create table u (id int primary key)",
        "insert into t values (1)", "insert into u values (1)"});
  StartServer();
  CatchUp();
  ASSERT_TRUE(RemoveTable("public.t", /*truncate=*/false).ok());
  ASSERT_TRUE(RemoveTable("public.u", /*truncate=*/true).ok());
  ASSERT_TRUE(WaitForState("public.t", v1::TABLE_FOLLOW_STATE_REMOVED));
  ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.u").changes_made() == 1; }, kDeadline));
  Exec({"insert into t values (2)", "insert into u values (2)"});
  CatchUp();
  EXPECT_THAT(Here("public.t"), ElementsAre("id='1'"));
  EXPECT_THAT(Here("public.u"), IsEmpty());
  tidemark_->Kill9();
  StartServer();
  Exec({"insert into t values (3)"});
  CatchUp();
  EXPECT_THAT(Here("public.t"), ElementsAre("id='1'"));
  // Taken in again: only what it missed.
  const size_t before = ChangesOf("public.t").size();
  ASSERT_TRUE(AddTable("public.t").ok());
  ASSERT_TRUE(WaitForState("public.t", kFollowed));
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
  EXPECT_EQ(ChangesOf("public.t").size(), before + 2);
}

// Where the empty search path finds other operators than those by which the index has its rows
// (citext: those of text), or none (ltree), no row is passed over. proves B065, A52
TEST_F(TableReadingTest, KeysThatHaveAnOrderOfTheirOwn) {
  SetUpPostgres();
  const std::string rows = "from generate_series(1, 2500) i";
  Exec(
      {"create schema ext", "create extension citext schema ext",
       "create extension ltree schema ext", "create domain address as ext.citext",
       "create table a (key ext.citext primary key, n int)",
       // Upper and lower case by turns: by bytes, every other one comes first.
       "insert into a select case when i % 2 = 0 then 'KEY' else 'key' end || i, i " + rows,
       "create table b (part int, key address, path ext.ltree, n int, primary key (part, key, "
       "path))",
       "insert into b select i % 3, case when i % 2 = 0 then 'KEY' else 'key' end || i, ('x.y' || "
       "i)::ext.ltree, i " +
           rows,
       // Known keys are joined with the table: each column of its own type and collation.
       "create type mood as enum ('low', 'high')",
       "create table c (k1 text collate \"C\", k2 char(4), k3 numeric(10, 2), k4 uuid, k5 name, k6 "
       "mood, k7 varchar(9) collate \"en-x-icu\", n int, primary key (k1, k2, k3, k4, k5, k6, k7))",
       "insert into c select 'it''s ' || i % 7, i % 5, i / 4.0, md5(i::text)::uuid, 'n' || i, case "
       "when i % 2 = 0 then 'low' else 'high' end::mood, 'ü' || i, i " +
           rows});
  StartServer(Only("public.marker"));
  for (const std::string table : {"public.a", "public.b", "public.c"}) {
    ASSERT_TRUE(AddTable(table).ok());
    ASSERT_TRUE(WaitForState(table, kFollowed, "new to the feed"));
    CatchUp();
    EXPECT_TRUE(Here(table) == There(table)) << table;
    ASSERT_TRUE(StartSnapshot(table).ok());
    ASSERT_TRUE(WaitForState(table, kFollowed, "asked for"));
    EXPECT_EQ(StatusOf(table).rows_read(), 2500u);
    EXPECT_EQ(StatusOf(table).changes_made(), 0u);
    const auto verified = tidemark_->Run({"verify", "main", table});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  }
}

// proves A49, H4: nothing is written at the source, and nobody else has to.
TEST_F(TableReadingTest, AnIdleDatabaseIsReadWithoutAWrite) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, a text)",
        "insert into t select i, 'row ' || i from generate_series(1, 2500) i"});
  StartServer();
  CatchUp();
  Exec({"alter role postgres set default_transaction_read_only = on",
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and "
        "backend_type = 'client backend'"});
  // A transaction that has written and does not end: what it wrote may not be flushed for long.
  auto open = postgres_->Connect();
  ASSERT_TRUE(open.ok());
  ASSERT_TRUE((*open)
                  ->Exec("set transaction_read_only = off; begin read write; "
                         "delete from t where id = 1")
                  .ok());
  ASSERT_TRUE(StartSnapshot("public.t").ok());
  ASSERT_TRUE(WaitUntil(
      [&] { return StatusOf("public.t").state() == kFollowed && StatusOf("public.t").rows_read(); },
      kDeadline, [&] { return StatusOf("public.t").DebugString(); }));
  const v1::TableStatus status = StatusOf("public.t");
  EXPECT_EQ(status.rows_read(), 2500u);
  EXPECT_EQ(status.changes_made(), 0u) << "only true differences";
}

// proves B075, B077, A48, H4: added under writers, and the server killed again and again.
TEST_F(TableReadingTest, UnderWritersAndKillsEveryRowIsExact) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, v int, note text)",
        "insert into big select i, 0, repeat('n', 50) from generate_series(0, 39999) i"});
  StartServer(Only("public.marker"));
  std::vector<std::unique_ptr<RowWriter>> writers;
  for (uint64_t seed : {1, 2, 3}) {
    writers.push_back(std::make_unique<RowWriter>(*postgres_, 40'000, seed));
  }
  ASSERT_TRUE(AddTable("public.big").ok());
  uint64_t read = 0;
  for (int kill = 0; kill < 5; ++kill) {
    ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.big").rows_read() > read; }, kDeadline,
                          [&] { return tidemark_->Diagnostics(); }));
    read = StatusOf("public.big").rows_read();
    tidemark_->Kill9();
    StartServer();
    // It goes on where it was: nothing that was read is read once more.
    ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.big").rows_read() >= read; }, kDeadline,
                          [&] { return StatusOf("public.big").ShortDebugString(); }));
  }
  ASSERT_TRUE(WaitForState("public.big", kFollowed, "new to the feed"));
  for (auto& writer : writers) writer->Stop();
  CatchUp();
  EXPECT_TRUE(Here("public.big") == There("public.big")) << "the rows differ from the table";
  // Read again while nothing changes: nothing differs.
  ASSERT_TRUE(StartSnapshot("public.big").ok());
  ASSERT_TRUE(WaitForState("public.big", kFollowed, "asked for"));
  EXPECT_EQ(StatusOf("public.big").changes_made(), 0u);
}

// proves B075: what a consumer sees of a row never goes back.
TEST_F(TableReadingTest, NoRowGoesBackWhileItIsReadAgain) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, v int, note text)",
        "insert into big select i, 0, repeat('n', 50) from generate_series(0, 9999) i"});
  StartServer();
  std::vector<std::unique_ptr<RowWriter>> writers;
  for (uint64_t seed : {4, 5}) {
    writers.push_back(std::make_unique<RowWriter>(*postgres_, 10'000, seed));
  }
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(StartSnapshot("public.big").ok());
    ASSERT_TRUE(WaitForState("public.big", v1::TABLE_FOLLOW_STATE_READING));
    ASSERT_TRUE(WaitForState("public.big", kFollowed, "asked for"));
    EXPECT_EQ(StatusOf("public.big").changes_made(), 0u)
        << "every row was known as it is, whatever happened meanwhile";
  }
  for (auto& writer : writers) writer->Stop();
  CatchUp();
  EXPECT_TRUE(Here("public.big") == There("public.big"));
}

// Whatever was asked for when a session ended is asked for again, the keys of rows that are gone
// included.
TEST_F(TableReadingTest, EndedSessionsLoseNothing) {  // proves H4, B077
  constexpr int kRows = 6000;
  SetUpPostgres();
  Exec({"create table u (id int, part int, primary key (id, part)) partition by list (part)",
        "create table u_1 partition of u for values in (1)",
        "create table u_2 partition of u for values in (2)",
        fmt::format("insert into u select i, 1 + i % 2 from generate_series(1, {}) i", kRows)});
  StartServer(Only("public.u, public.marker"));
  CatchUp();
  std::atomic<bool> over = false;
  std::atomic<size_t> ended = 0;
  std::thread ending([&] {
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    while (!over) {
      const auto sessions = (*session)->Query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like "
          "'tidemark/%' and query like 'COPY%' and random() < 0.05");
      ASSERT_TRUE(sessions.ok()) << sessions.status();
      ended += sessions->rows.size();
    }
  });
  Exec({"alter table u detach partition u_2"});
  EXPECT_TRUE(WaitUntilSettled("public.u"));
  for (int round = 0; round < 50 && ended == 0; ++round) {
    EXPECT_TRUE(StartSnapshot("public.u").ok());
    EXPECT_TRUE(WaitForState("public.u", kFollowed, "asked for"));
  }
  over = true;
  ending.join();
  EXPECT_GT(ended, 0u);
  CatchUp();
  EXPECT_EQ(Here("public.u").size(), There("public.u").size());
  EXPECT_EQ(Here("public.u"), There("public.u"));
}

// proves B079
TEST_F(TableReadingTest, TheSchemaMayChangeMeanwhile) {
  SetUpPostgres();
  Exec({"create table big (id int primary key, v int, note text)",
        "insert into big select i, i, 'n' || i from generate_series(1, 20000) i"});
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable("public.big").ok());
  ASSERT_TRUE(WaitUntil([&] { return StatusOf("public.big").rows_read() > 0; }, kDeadline));
  Exec({"alter table big add column added int default 5", "update big set v = v + 1 where id < 50",
        "alter table big drop column note", "update big set added = 6 where id > 19950"});
  ASSERT_TRUE(WaitForState("public.big", kFollowed));
  Exec({"insert into big values (0, 0, 0)"});
  // The next look finds that a column has values of which there was no message. That one is dropped
  // is told by the schema: rows that nobody touched keep what they had there.
  const auto without_note = [](std::vector<std::string> rows) {
    for (std::string& row : rows) {
      const size_t note = row.find(" note='");
      if (note != std::string::npos) row.erase(note, row.find('\'', note + 7) + 1 - note);
    }
    return rows;
  };
  ASSERT_TRUE(WaitUntil(
      [&] {
        CatchUp();
        return without_note(Here("public.big")) == There("public.big");
      },
      kDeadline, [&] { return StatusOf("public.big").ShortDebugString(); }));
}

// proves B084: names that need quoting.
TEST_F(TableReadingTest, NamesAreExact) {
  SetUpPostgres();
  Exec({R"(create schema "We.ird ""S""")",
        R"(create table "We.ird ""S"""."T.x" ("Col ,;é" text primary key, "a b" int))",
        R"(insert into "We.ird ""S"""."T.x" values ('it''s \ "1"', 1), ('', 2))"});
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable(R"("We.ird ""S""". "T.x")").error_code() ==
              grpc::StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(AddTable(R"("We.ird ""S"""."T.x")").ok());
  ASSERT_TRUE(WaitForState(R"("We.ird ""S"""."T.x")", kFollowed, "new to the feed"));
  Exec({R"(insert into "We.ird ""S"""."T.x" values ('new', 3))"});
  ASSERT_TRUE(StartSnapshot(R"("We.ird ""S"""."T.x")").ok());
  ASSERT_TRUE(WaitForState(R"("We.ird ""S"""."T.x")", kFollowed, "asked for"));
  CatchUp();
  EXPECT_EQ(Here(R"(We.ird "S".T.x)"), There(R"("We.ird ""S"""."T.x")"));
  EXPECT_EQ(Here(R"(We.ird "S".T.x)").size(), 3u);
}

}  // namespace
}  // namespace tidemark::testing
