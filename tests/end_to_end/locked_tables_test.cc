// A table that somebody has locked against everybody: only what reads that table waits, and says
// for whom.
#include <gmock/gmock.h>

#include "tests/end_to_end/table_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kReading = v1::TABLE_FOLLOW_STATE_READING;

class LockedTablesTest : public TableFixture {
 protected:
  static constexpr char kHeld[] = "prepared transaction 'held'";

  void SetUp() override {
    SetUpPostgres({.settings = {{"max_prepared_transactions", "5"}}});
    Exec({"create table t (id int primary key)", "insert into t values (1)",
          "create table u (id int primary key)", "insert into u values (1)",
          "create table pa (id int, k int, primary key (id, k)) partition by list (k)",
          "create table pa1 partition of pa for values in (1)",
          "create table pa2 partition of pa for values in (2)",
          "insert into pa values (1, 1), (2, 2)", "create table k (a int)",
          "alter table k replica identity full", "insert into k values (1), (1)"});
  }

  void Hold(const std::string& sql) { Exec({"begin; " + sql + "; prepare transaction 'held'"}); }
  void LetGo() { Exec({"rollback prepared 'held'"}); }

  // What is written to the others is seen here, and so is what moves without a message.
  void ExpectOthersGoOn() {
    Exec({"insert into u select max(id) + 1 from u"});
    CatchUp();
    EXPECT_EQ(Here("public.u"), There("public.u"));
    ASSERT_TRUE(WaitUntilSettled("public.u"));
    ASSERT_TRUE(StartSnapshot("public.u").ok());
    ASSERT_TRUE(WaitForState("public.u", kFollowed, "asked for"));
    EXPECT_NE(StatusOfFeed().last_error().reason(), "SOURCE_SILENT");
  }

  void ExpectAllEqual() {
    for (const char* table : {"public.t", "public.u", "public.pa", "public.k"}) {
      ASSERT_TRUE(WaitUntilSettled(table));
      CatchUp();
      EXPECT_EQ(Here(table), There(table));
    }
  }
};

// proves B043, B016: of a server that looks at the catalog, and of one that starts.
TEST_F(LockedTablesTest, HoldNobodyUpWhoDoesNotReadThem) {
  StartServer();
  CatchUp();
  Hold("truncate t, pa2");
  ExpectOthersGoOn();
  tidemark_->Kill9();
  StartServer();
  ExpectOthersGoOn();
  LetGo();
  Exec({"insert into t values (2)", "insert into pa values (3, 2)"});
  ExpectAllEqual();
}

// proves B043, B065: a table, and a partition, that are to be read.
TEST_F(LockedTablesTest, AreReadOnceTheLockIsGone) {
  StartServer();
  CatchUp();
  Hold("truncate t, pa2, k");
  for (const char* table : {"public.t", "public.pa", "public.k"}) {
    ASSERT_TRUE(StartSnapshot(table).ok());
  }
  ASSERT_TRUE(WaitForState("public.t", kReading, kHeld));
  ASSERT_TRUE(WaitForState("public.pa", kReading, kHeld));
  ASSERT_TRUE(WaitForState("public.k", kReading, kHeld));
  EXPECT_THAT(StatusOf("public.k").detail(), HasSubstr("the lock of public.k"));
  EXPECT_THAT(StatusOf("public.t").detail(), HasSubstr("the lock of public.t"));
  EXPECT_THAT(StatusOf("public.pa").detail(), HasSubstr("the lock of public.pa2"));
  ExpectOthersGoOn();
  LetGo();
  ExpectAllEqual();
  auto session = postgres_->Connect();
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->Exec("begin; lock table t in access exclusive mode").ok());
  ASSERT_TRUE(StartSnapshot("public.t").ok());
  const auto pid = (*session)->QueryValue("select pg_backend_pid()");
  ASSERT_TRUE(pid.ok());
  ASSERT_TRUE(WaitForState("public.t", kReading, "pid " + *pid + " (user postgres"));
  ASSERT_TRUE((*session)->Exec("rollback").ok());
  ASSERT_TRUE(WaitForState("public.t", kFollowed, "asked for"));
}

// proves B014: rows of a partition that no look saw, of a table that is read whole.
TEST_F(LockedTablesTest, GetAPartitionForAMomentWhileTheyAreWaitedFor) {
  Exec({"create table pk (a int, k int) partition by list (k)",
        "create table pk1 partition of pk for values in (1)",
        "create table pk2 partition of pk for values in (2)",
        "alter table pk replica identity full", "alter table pk1 replica identity full",
        "alter table pk2 replica identity full", "insert into pk values (1, 1), (1, 1), (2, 2)",
        "create table pk3 (a int, k int)", "insert into pk3 values (7, 3)"});
  LiveTidemarkOptions options;
  options.postgres_lines = {"catalog_period: 1h", "tables: [public.pk, public.u, public.marker]"};
  StartServer(options);
  CatchUp();
  Hold("truncate pk2");
  ASSERT_TRUE(StartSnapshot("public.pk").ok());
  ASSERT_TRUE(WaitForState("public.pk", kReading, kHeld));
  Exec({"alter table pk attach partition pk3 for values in (3)"});
  LetGo();
  ASSERT_TRUE(WaitForState("public.pk", kFollowed));
  Exec({"alter table pk detach partition pk3"});
  // An order makes it look.
  ASSERT_TRUE(StartSnapshot("public.marker").ok());
  EXPECT_TRUE(WaitUntil(
      [&] {
        CatchUp();
        return Here("public.pk") == There("public.pk");
      },
      kDeadline, [&] { return ::testing::PrintToString(Here("public.pk")); }));
}

// proves B065, B083: giving it to the publication needs more than a reader does.
TEST_F(LockedTablesTest, ArePublishedOnceTheLockIsGone) {
  LiveTidemarkOptions options;
  options.postgres_lines = {"tables: [public.u, public.marker]"};
  StartServer(options);
  CatchUp();
  Hold("lock table t in share mode; insert into t values (7)");
  ASSERT_TRUE(AddTable("public.t").ok());
  ASSERT_TRUE(WaitForState("public.t", kReading, kHeld));
  ExpectOthersGoOn();
  LetGo();
  ASSERT_TRUE(WaitForState("public.t", kFollowed, "new to the feed"));
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
}

// proves B071: a feed that has nothing yet.
TEST_F(LockedTablesTest, AreNamedWhileTheInitialSnapshotWaits) {
  Hold("truncate t");
  tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
  ASSERT_TRUE(tidemark_->Launch().ok());
  const absl::Status said = tidemark_->WaitForStatus(kHeld);
  EXPECT_TRUE(said.ok()) << said << tidemark_->Diagnostics();
  LetGo();
  ASSERT_TRUE(tidemark_->WaitUntilStreaming().ok()) << tidemark_->Diagnostics();
  tidemark_->Kill9();
  StartServer();
  ExpectAllEqual();
}

}  // namespace
}  // namespace tidemark::testing
