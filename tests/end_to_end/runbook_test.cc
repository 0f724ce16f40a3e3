// What the runbook shows besides the commands of quickstart_test.cc: its SQL on a PostgreSQL, as it
// stands there, and what it says in words of a feed begun afresh and of a server that is moved.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/built_paths.h"
#include "tests/testing/code_blocks.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kFailoverSlotsSince = 170000;

class RunbookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
  }

  void CreateShop() {
    ASSERT_TRUE(postgres_->Exec("CREATE DATABASE shop").ok());
    ASSERT_TRUE(postgres_->Exec("CREATE ROLE tidemark LOGIN").ok());
    const auto made = Psql(
        "CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL);\n"
        "CREATE TABLE customers (id bigint PRIMARY KEY, name text);\n");
    ASSERT_TRUE(made.ok()) << made.status();
  }

  absl::StatusOr<std::string> Shell(const std::string& command) {
    ProcessOptions options;
    options.argv = {"bash", "-c", command};
    options.name = "shell" + std::to_string(++shells_);
    options.output_dir = scratch_.path();
    options.working_dir = SourceDir();
    options.environment = {{"PGHOST", "127.0.0.1"},
                           {"PGPORT", std::to_string(postgres_->port())},
                           {"PGUSER", "postgres"},
                           {"PATH", postgres_->bin_dir().string() + ":/usr/bin:/bin"}};
    return RunCommand(std::move(options), seconds(60));
  }

  // Each statement by itself, as somebody types them.
  absl::StatusOr<std::string> Psql(const std::string& sql) {
    const std::string file = (scratch_ / "statements.sql").string();
    std::ofstream(file) << sql;
    return Shell("psql -X -At -d shop -v ON_ERROR_STOP=1 -f " + file);
  }

  // The one SQL block that holds the text.
  std::string SqlWith(const std::string& text) const {
    std::string found;
    for (const std::string& block : CodeBlocks(runbook_, "sql")) {
      if (block.find(text) == std::string::npos) continue;
      EXPECT_EQ(found, "") << "two blocks hold " << text;
      found = block;
    }
    EXPECT_NE(found, "") << "no block holds " << text;
    return found;
  }

  // The one command of that program whose line holds the text.
  std::string CommandWith(const std::string& program, const std::string& text) const {
    std::string found;
    for (const std::string& command : Commands(runbook_, program)) {
      if (command.find(text) != std::string::npos) found = command;
    }
    EXPECT_NE(found, "") << "no command of " << program << " holds " << text;
    return found;
  }

  // A server that streams, with one row told, and the cursor behind it.
  std::string StartWithOneRow(LiveTidemark& tidemark) {
    EXPECT_TRUE(postgres_->Exec("CREATE TABLE orders (id bigint PRIMARY KEY)").ok());
    const absl::Status started = tidemark.Start();
    EXPECT_TRUE(started.ok()) << started;
    EXPECT_TRUE(postgres_->Exec("INSERT INTO orders VALUES (1)").ok());
    const auto tail =
        tidemark.Run({"tail", "main", "--from", "earliest", "--max-transactions", "1"});
    EXPECT_TRUE(tail.ok() && tail->exit_code == 0) << tidemark.Diagnostics();
    const auto cursor = tidemark.Run({"cursor", "resolve", "main", "latest"});
    EXPECT_TRUE(cursor.ok() && cursor->exit_code == 0) << tidemark.Diagnostics();
    return cursor.ok() ? cursor->out.substr(0, cursor->out.find('\n')) : "";
  }

  ScratchDir scratch_{"runbook"};
  const std::string runbook_ = FileText(SourceDir() / "deploy/RUNBOOK.md");
  std::unique_ptr<LivePostgres> postgres_;
  int shells_ = 0;
};

TEST_F(RunbookTest, EverySqlBlockIsRunHere) {
  // Failover, large transactions, changelog, the index and the tombstones of polled tables.
  EXPECT_EQ(CodeBlocks(runbook_, "sql").size(), 5u);
}

TEST_F(RunbookTest, TheDecodersMemoryIsSetAsShown) {
  CreateShop();
  const auto set = Psql(SqlWith("ALTER ROLE tidemark SET logical_decoding_work_mem") +
                        "SELECT 'set: ' || rolconfig::text FROM pg_roles WHERE rolname = "
                        "'tidemark';\n");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(*set, HasSubstr("set: {logical_decoding_work_mem=16MB}\n"));
}

TEST_F(RunbookTest, TheChangelogIsInstalledAsShown) {
  CreateShop();
  const auto created = Shell(CommandWith("psql", "changelog/create.sql"));
  ASSERT_TRUE(created.ok()) << created.status();
  const auto installed = Psql(SqlWith("changelog_install"));
  ASSERT_TRUE(installed.ok()) << installed.status();
  const auto noted = Psql(
      "INSERT INTO orders VALUES (1, now());\n"
      "SELECT 'noted: ' || count(*) FROM tidemark.changelog;\n"
      "SELECT 'readable: ' || has_table_privilege('tidemark', 'tidemark.changelog', 'SELECT');\n");
  ASSERT_TRUE(noted.ok()) << noted.status();
  EXPECT_THAT(*noted, HasSubstr("noted: 1\n"));
  EXPECT_THAT(*noted, HasSubstr("readable: true\n"));
}

TEST_F(RunbookTest, APolledTableGetsIndexAndTombstonesAsShown) {
  CreateShop();
  const auto indexed = Psql(SqlWith("CREATE INDEX CONCURRENTLY"));
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  const auto buries = Psql(SqlWith("CREATE TRIGGER bury"));
  ASSERT_TRUE(buries.ok()) << buries.status();
  const auto buried = Psql(
      "INSERT INTO orders VALUES (1, now()), (2, now());\n"
      "DELETE FROM orders WHERE id = 2;\n"
      "SELECT 'buried: ' || string_agg(id::text, ',') FROM orders_deleted;\n");
  ASSERT_TRUE(buried.ok()) << buried.status();
  EXPECT_THAT(*buried, HasSubstr("buried: 2\n"));
}

// Needs PostgreSQL 17.
TEST_F(RunbookTest, AFailoverIsPreparedAsShown) {
  const auto version = postgres_->QueryValue("SHOW server_version_num");
  ASSERT_TRUE(version.ok()) << version.status();
  if (std::stoi(*version) < kFailoverSlotsSince) GTEST_SKIP() << "needs PostgreSQL 17";
  CreateShop();
  const auto slots = Psql(
      "SELECT pg_create_physical_replication_slot('its_physical_slot');\n"
      "SELECT pg_create_logical_replication_slot('tidemark_shop', 'pgoutput');\n");
  ASSERT_TRUE(slots.ok()) << slots.status();
  const auto set = Psql(SqlWith("sync_replication_slots"));
  ASSERT_TRUE(set.ok()) << set.status();
  const auto marked = Shell(CommandWith("psql", "ALTER_REPLICATION_SLOT"));
  ASSERT_TRUE(marked.ok()) << marked.status();
  const std::string shown = "SELECT slot_name, synced, temporary FROM pg_replication_slots";
  ASSERT_THAT(runbook_, HasSubstr("`" + shown + "`"));
  const auto copy = Psql(shown +
                         ";\nSELECT 'marked: ' || failover FROM pg_replication_slots "
                         "WHERE slot_name = 'tidemark_shop';\n");
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_THAT(*copy, HasSubstr("marked: true\n"));
}

// "Starting a feed afresh".
TEST_F(RunbookTest, AFeedIsStartedAfreshAsSaid) {
  LiveTidemark tidemark(*postgres_);
  const std::string cursor = StartWithOneRow(tidemark);
  ASSERT_NE(cursor, "");
  ASSERT_THAT(Commands(runbook_, "tidemark"), Contains("tidemark feed drop shop --yes"));
  const auto dropped = tidemark.Run({"feed", "drop", "main", "--yes"});
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  ASSERT_EQ(dropped->exit_code, 0) << dropped->err;
  ASSERT_EQ(tidemark.Stop().value_or(-1), 0) << tidemark.Diagnostics();

  const absl::Status started = tidemark.Start();
  ASSERT_TRUE(started.ok()) << started << tidemark.Diagnostics();
  const auto old = tidemark.Run({"tail", "main", "--from", cursor, "--until", "now"});
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_NE(old->exit_code, 0);
  EXPECT_THAT(old->err, HasSubstr("CURSOR_OTHER_FEED"));
  const auto rows = tidemark.Run(
      {"tail", "main", "--from", "snapshot", "--format", "jsonl", "--max-transactions", "0"});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->out, HasSubstr("\"id\":1"));
  EXPECT_EQ(tidemark.Stop().value_or(-1), 0) << tidemark.Diagnostics();
}

// "To move a server".
TEST_F(RunbookTest, AServerIsMovedAsSaid) {
  LiveTidemark here(*postgres_);
  const std::string cursor = StartWithOneRow(here);
  ASSERT_NE(cursor, "");
  ASSERT_EQ(here.Stop().value_or(-1), 0) << here.Diagnostics();
  LiveTidemark there(*postgres_);
  std::filesystem::copy(here.store_dir(), there.store_dir(),
                        std::filesystem::copy_options::recursive);
  std::filesystem::copy_file(here.store_dir().string() + ".cursor_keys",
                             there.store_dir().string() + ".cursor_keys");

  const absl::Status started = there.Start();
  ASSERT_TRUE(started.ok()) << started << there.Diagnostics();
  ASSERT_TRUE(postgres_->Exec("INSERT INTO orders VALUES (2)").ok());
  const auto tail =
      there.Run({"tail", "main", "--from", cursor, "--format", "jsonl", "--max-transactions", "1"});
  ASSERT_TRUE(tail.ok()) << tail.status();
  EXPECT_EQ(tail->exit_code, 0) << tail->err;
  EXPECT_THAT(tail->out, HasSubstr("\"id\":2"));
  EXPECT_THAT(tail->out, ::testing::Not(HasSubstr("\"id\":1")));
  EXPECT_EQ(there.Stop().value_or(-1), 0) << there.Diagnostics();
}

}  // namespace
}  // namespace tidemark::testing
