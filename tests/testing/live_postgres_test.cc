#include "tests/testing/live_postgres.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class LivePostgresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<LivePostgres>> created =
        LivePostgres::Create({.settings = {{"work_mem", "5MB"}}});
    ASSERT_TRUE(created.ok()) << created.status();
    postgres_ = std::move(*created);
  }

  std::unique_ptr<LivePostgres> postgres_;
};

TEST_F(LivePostgresTest, DecodesLogicallyAndTakesSettings) {
  EXPECT_EQ(postgres_->QueryValue("SHOW wal_level").value(), "logical");
  EXPECT_EQ(postgres_->QueryValue("SHOW fsync").value(), "off");
  EXPECT_EQ(postgres_->QueryValue("SHOW work_mem").value(), "5MB");
  auto session = postgres_->Connect("postgres", "replication=database").value();
  EXPECT_EQ(session->Query("IDENTIFY_SYSTEM").value().rows.size(), 1u);
  EXPECT_TRUE(session->Exec("CREATE_REPLICATION_SLOT s LOGICAL pgoutput").ok());
}

TEST_F(LivePostgresTest, KeepsCommittedRowsOverEveryKindOfEnd) {
  ASSERT_TRUE(postgres_->Exec("CREATE TABLE t (a int)").ok());
  ASSERT_TRUE(postgres_->Exec("INSERT INTO t VALUES (1)").ok());
  postgres_->Kill9();
  EXPECT_FALSE(postgres_->IsRunning());
  ASSERT_TRUE(postgres_->Start().ok());
  ASSERT_TRUE(postgres_->Restart(StopMode::kImmediate).ok());
  ASSERT_TRUE(postgres_->Restart(StopMode::kFast).ok());
  EXPECT_EQ(postgres_->QueryValue("SELECT count(*) FROM t").value(), "1");
  EXPECT_THAT(postgres_->Log(), HasSubstr("database system was not properly shut down"));
}

TEST_F(LivePostgresTest, PausedServerIsSilentUntilResumed) {
  auto session = postgres_->Connect().value();
  postgres_->Pause();
  ASSERT_TRUE(session->Send("SELECT 7").ok());
  EXPECT_FALSE(session->Wait(100ms).ok());
  postgres_->Resume();
  EXPECT_EQ(session->Wait(10s).value().Value(), "7");
}

TEST_F(LivePostgresTest, SessionsBlockEachOtherStepByStep) {
  ASSERT_TRUE(
      postgres_->Exec("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)")
          .ok());
  auto first = postgres_->Connect().value();
  auto second = postgres_->Connect().value();
  ASSERT_TRUE(first->Exec("BEGIN").ok());
  ASSERT_TRUE(first->Exec("UPDATE t SET b = 1").ok());
  ASSERT_TRUE(second->Send("UPDATE t SET b = b + 10 RETURNING b").ok());
  std::string waiting = fmt::format("SELECT wait_event_type FROM pg_stat_activity WHERE pid = {}",
                                    second->backend_pid());
  EXPECT_TRUE(WaitUntil([&] { return postgres_->QueryValue(waiting).value() == "Lock"; }, 10s));
  EXPECT_TRUE(second->IsBusy());
  ASSERT_TRUE(first->Exec("COMMIT").ok());
  EXPECT_EQ(second->Wait(10s).value().Value(), "11");
}

// They share a session where that shows in nothing.
TEST_F(LivePostgresTest, EachStatementFindsASessionAsNew) {
  const std::string pid = "SELECT pg_backend_pid()";
  const std::string first = postgres_->QueryValue(pid).value();
  EXPECT_EQ(postgres_->QueryValue(pid).value(), first);
  ASSERT_TRUE(postgres_->Exec("SET work_mem = '7MB'; SELECT pg_advisory_lock(1)").ok());
  EXPECT_EQ(postgres_->QueryValue("SHOW work_mem").value(), "5MB");
  EXPECT_EQ(
      postgres_->QueryValue("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").value(),
      "0");
  ASSERT_TRUE(postgres_->Exec("BEGIN").ok());
  EXPECT_EQ(
      postgres_->QueryValue("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'")
          .value(),
      "0");
  EXPECT_FALSE(postgres_->Exec("SELECT pg_terminate_backend(pg_backend_pid())").ok());
  EXPECT_TRUE(postgres_->Exec("SELECT 1").ok());
}

TEST_F(LivePostgresTest, ASessionThatEndedIsNotQuiet) {
  auto session = postgres_->Connect().value();
  EXPECT_TRUE(session->IsQuiet());
  EXPECT_FALSE(session->Exec("SELECT pg_terminate_backend(pg_backend_pid())").ok());
  EXPECT_FALSE(session->IsQuiet()) << "its end was noticed in a statement";
  auto other = postgres_->Connect().value();
  postgres_->Kill9();
  EXPECT_TRUE(WaitUntil([&] { return !other->IsQuiet(); }, 10s));
}

TEST_F(LivePostgresTest, ErrorsNameTheSqlState) {
  absl::Status status = postgres_->Exec("SELECT * FROM nowhere");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ERROR 42P01: relation \"nowhere\" does not exist"));
}

TEST_F(LivePostgresTest, CopiesInAndTellsNullFromEmpty) {
  auto session = postgres_->Connect().value();
  ASSERT_TRUE(session->Exec("CREATE TABLE t (a int, b text)").ok());
  ASSERT_TRUE(session->CopyIn("COPY t FROM STDIN", "1\t\\N\n2\t\n").ok());
  PgRows rows = session->Query("SELECT * FROM t ORDER BY a").value();
  EXPECT_EQ(rows.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(rows.rows[0][1], std::nullopt);
  EXPECT_EQ(rows.rows[1][1], "");
}

TEST(LivePostgresDurableTest, HonoursFsync) {
  auto postgres = LivePostgres::Create({.fsync = true}).value();
  EXPECT_EQ(postgres->QueryValue("SHOW fsync").value(), "on");
}

}  // namespace
}  // namespace tidemark::testing
