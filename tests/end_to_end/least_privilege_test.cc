// A whole server whose role may log in, replicate and read the captured tables, and nothing else;
// and what becomes of a feed whose role loses some of that while it runs.
#include <gmock/gmock.h>

#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/prepare_source.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kFailed = v1::TABLE_FOLLOW_STATE_FAILED;

class LeastPrivilegeTest : public TableFixture {
 protected:
  // More rows than one chunk holds.
  static constexpr int kRows = 2500;

  void SetUp() override {
    SetUpPostgres();
    Exec({"revoke connect on database postgres from public", "create schema app",
          "create schema types", "create type types.kind as enum ('a', 'b')",
          "create table app.orders (kind types.kind, id int, note text, primary key (kind, id))",
          fmt::format("insert into app.orders select case when i % 2 = 0 then 'a' else 'b' "
                      "end::types.kind, i, 'note ' || i from generate_series(1, {}) i",
                      kRows),
          "create table app.\"Log\" (id int primary key, line text)",
          "insert into app.\"Log\" values (1, 'first')", "create table app.secret (id int)"});
    const auto prepared = PrepareSource(
        *postgres_, {"capture", "tidemark_main", "public.marker, app.orders, app.\"Log\""});
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    LiveTidemarkOptions options;
    options.user = "capture";
    options.postgres_lines = {"tables: [public.marker, app.orders, 'app.\"Log\"']"};
    StartServer(options);
    CatchUp();
  }

  void ExpectEqualToSource() {
    CatchUp();
    EXPECT_EQ(Here("app.orders"), There("app.orders"));
    EXPECT_EQ(Here("app.Log"), There("app.\"Log\""));
  }
  void ExpectCheck(int exit_code, const std::string& text) {
    const auto check = tidemark_->Check();
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->exit_code, exit_code) << check->out << check->err;
    EXPECT_THAT(check->out, HasSubstr(text));
  }
  CommandResult Verify(const std::string& table) {
    const auto verified = tidemark_->Run({"verify", "main", table});
    EXPECT_TRUE(verified.ok()) << verified.status();
    return verified.value_or(CommandResult());
  }

  // The role lost something that only reading needs: `take` takes it, `finding` names it.
  void ExpectUnreadableUntilGiven(const std::vector<std::string>& take, const std::string& finding,
                                  const std::string& give) {
    Exec(take);
    const size_t changes = ChangesOf("app.orders").size();
    ASSERT_TRUE(StartSnapshot("app.orders").ok());
    ASSERT_TRUE(WaitForState("app.orders", kFailed, "SOURCE_PRIVILEGE"));
    // It stays said while nobody sees to it: over two looks at the catalog.
    for (int look = 0; look < 2; ++look) {
      const int64_t seen = StatusOfFeed().tables_seen().seconds();
      ASSERT_TRUE(
          WaitUntil([&] { return StatusOfFeed().tables_seen().seconds() > seen; }, kDeadline));
      EXPECT_EQ(StatusOf("app.orders").state(), kFailed);
      EXPECT_EQ(StatusOf("app.orders").error().reason(), "SOURCE_PRIVILEGE");
    }
    const CommandResult verified = Verify("app.orders");
    EXPECT_EQ(verified.exit_code, 7) << verified.out << verified.err;
    EXPECT_THAT(verified.out + verified.err, HasSubstr("SOURCE_PRIVILEGE"));
    ExpectCheck(5, finding);
    // Its changes come, each whole, and the other tables are read.
    Exec({"update app.orders set note = note || '+' where id <= 10",
          "delete from app.orders where id = 11"});
    ASSERT_TRUE(StartSnapshot("app.\"Log\"").ok());
    ASSERT_TRUE(WaitForState("app.\"Log\"", kFollowed));
    ExpectEqualToSource();
    EXPECT_EQ(ChangesOf("app.orders").size(), changes + 11) << "nothing was made of what it saw";
    Exec({give, "insert into app.orders values ('a', 11, 'again')"});
    ExpectCheck(0, "every source is ready");
    ASSERT_TRUE(StartSnapshot("app.orders").ok());
    ASSERT_TRUE(WaitForState("app.orders", kFollowed));
    EXPECT_EQ(StatusOf("app.orders").changes_made(), 0u);
    ExpectEqualToSource();
    EXPECT_EQ(Verify("app.orders").exit_code, 0);
  }
};

// proves A29, S15, B167
TEST_F(LeastPrivilegeTest, EverythingRunsOnIt) {
  ExpectEqualToSource();
  Exec({"update app.orders set note = 'changed' where id <= 100",
        "delete from app.orders where id = 200", "insert into app.\"Log\" values (2, 'second')"});
  ExpectEqualToSource();
  // Rows that move without a message, seen in the catalog and read again.
  Exec({"alter table app.orders add column added int default 5"});
  ASSERT_TRUE(WaitUntilSettled("app.orders"));
  ExpectEqualToSource();
  ASSERT_TRUE(StartSnapshot("app.orders").ok());
  ASSERT_TRUE(WaitForState("app.orders", kFollowed, "asked for"));
  EXPECT_EQ(StatusOf("app.orders").rows_read(), kRows - 1u);
  EXPECT_EQ(StatusOf("app.orders").changes_made(), 0u);
  EXPECT_EQ(Verify("app.*").exit_code, 0);
  // A bounded read.
  const auto tail =
      tidemark_->Run({"tail", "main", "--from", "earliest", "--until", "now", "--format", "jsonl"});
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_EQ(tail->exit_code, 0) << tail->err;
  EXPECT_THAT(tail->out, HasSubstr("\"second\""));
  // Dead and back.
  tidemark_->Kill9();
  Exec({"insert into app.\"Log\" values (3, 'while it was away')"});
  StartServer();
  ExpectEqualToSource();
  ExpectCheck(0, "every source is ready");
  EXPECT_THAT(postgres_->Log(), Not(HasSubstr("permission denied")))
      << "it tried what it needs not";

  EXPECT_EQ(
      *postgres_->QueryValue("select string_agg(distinct privilege_type, ' ') from "
                             "information_schema.role_table_grants where grantee = 'capture'"),
      "SELECT");
  const auto capture = postgres_->Connect("postgres", "user=capture");
  ASSERT_TRUE(capture.ok()) << capture.status();
  for (const char* attempt :
       {"insert into app.\"Log\" values (9, 'x')", "update app.orders set note = ''",
        "delete from app.orders", "truncate app.orders", "alter table app.orders add x int",
        "drop table app.orders", "create table app.mine (id int)", "create table mine (id int)",
        "create schema mine", "create publication mine for table app.orders",
        "alter publication tidemark_main add table app.secret", "select * from app.secret",
        "create role mine"}) {
    const absl::Status refused = (*capture)->Exec(attempt);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("ERROR 42501")) << attempt;
  }
}

TEST_F(LeastPrivilegeTest, WithoutSelectTheStreamGoesOn) {  // proves R61, B167
  ExpectUnreadableUntilGiven({"revoke select on app.orders from capture"},
                             "role capture may not read table app.orders",
                             "grant select on app.orders to capture");
}

TEST_F(LeastPrivilegeTest, SomeColumnsAreNotReadAsIfTheyWereAll) {  // proves R61, B167
  ExpectUnreadableUntilGiven({"revoke select on app.orders from capture",
                              "grant select (kind, id) on app.orders to capture"},
                             "role capture may read only some columns of table app.orders",
                             "grant select on app.orders to capture");
}

// A policy that shows the role a part of the rows: the others would count as gone.
TEST_F(LeastPrivilegeTest, HiddenRowsAreNotTakenForGone) {  // proves R61, B167
  ExpectUnreadableUntilGiven(
      {"alter table app.orders enable row level security",
       "create policy part on app.orders for select to capture using (id % 3 = 0)"},
      "row level security would show role capture only some rows of table app.orders",
      "alter role capture bypassrls");
}

// proves R61: named, and lossless once it is mended.
TEST_F(LeastPrivilegeTest, WithoutReplicationNothingIsLost) {
  Exec({"alter role capture noreplication",
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where usename = 'capture'",
        "insert into app.\"Log\" values (7, 'meanwhile')"});
  ASSERT_TRUE(tidemark_->WaitForStatus("SOURCE_PRIVILEGE").ok()) << tidemark_->Diagnostics();
  ASSERT_TRUE(tidemark_->WaitForStatus("SOURCE_STATE_FAILED").ok()) << tidemark_->Diagnostics();
  ExpectCheck(5, "ALTER ROLE \"capture\" REPLICATION;");
  Exec({"alter role capture replication"});
  ASSERT_TRUE(tidemark_->Stop().ok());
  StartServer();
  ExpectEqualToSource();
}

}  // namespace
}  // namespace tidemark::testing
