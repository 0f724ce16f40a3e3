// A table without a key, read again beside the stream: what is changed while it is read.
#include <fmt/format.h>

#include <set>
#include <thread>

#include "tests/capture/postgres/memory_rows.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// More than a reading runs ahead of what is taken, so that it cannot be over before it is taken.
constexpr int kRows = 25'000;
constexpr int kRowBytes = 1600;

class PostgresWholeReadingTest : public PostgresFixture {
 protected:
  using Texts = std::multiset<std::string>;

  void Start() {
    Exec("CREATE TABLE k (a int, b text); ALTER TABLE k REPLICA IDENTITY FULL");
    Exec(
        fmt::format("INSERT INTO k SELECT i % 1000, CASE WHEN i % 7 > 0 THEN repeat('x', {}) END "
                    "FROM generate_series(1, {}) i",
                    kRowBytes, kRows));
    Exec("CREATE TABLE other (id int PRIMARY KEY)");
    driver_ = std::make_unique<SourceDriver>(FeedOf(*postgres_));
    driver_->source().UseKnownRows(&known_);
    ASSERT_TRUE(driver_->ReadUntilWhole());
    driver_->transactions.clear();
  }

  // Until rows come, under a snapshot that was taken before. Most of them are still to come.
  void BeginReading() {
    ASSERT_TRUE(driver_->ReadUntil([&] {
      return driver_->source().OrderTable({TableOrder::Kind::kRead, "public", "k"}).ok();
    }));
    ASSERT_TRUE(driver_->ReadUntil([&] { return driver_->open_large() > 0; }));
  }
  // All that was committed is on its way here.
  ::testing::AssertionResult WaitUntilSent() {
    const std::string at = Value("SELECT pg_current_wal_flush_lsn()");
    return testing::WaitUntil(
        [&] { return Value("SELECT sent_lsn >= '" + at + "' FROM pg_stat_replication") == "t"; },
        60s);
  }

  static bool IsMade(const SeenTransaction& one) { return one.position.ordinal() > 0; }
  const SeenTransaction* Made() const {
    for (const SeenTransaction& one : driver_->transactions) {
      if (IsMade(one)) return &one;
    }
    return nullptr;
  }
  ::testing::AssertionResult ReadUntilMade() {
    return driver_->ReadUntil([&] { return Made() != nullptr; });
  }

  // Of a made transaction: a truncate, all rows, and what is told once more, which is returned.
  std::vector<std::string> CheckMade(const SeenTransaction& made, size_t rows) {
    EXPECT_EQ(made.record.origin(), v1::ORIGIN_RESYNC);
    EXPECT_TRUE(made.large);
    EXPECT_EQ(made.record.changes(), made.changes.size());
    size_t bytes = 0;
    for (const std::string& run : made.run_bytes) bytes += run.size();
    EXPECT_EQ(made.record.bytes(), bytes);
    std::vector<std::string> unseen;
    for (size_t i = 0; i < made.changes.size(); ++i) {
      EXPECT_EQ(made.changes[i].sequence, i);
      EXPECT_EQ(made.changes[i].schema.table_name(), "k");
      const v1::Op op = made.changes[i].change.op();
      if (i == 0) {
        EXPECT_EQ(op, v1::OP_TRUNCATE);
      } else if (i <= rows) {
        EXPECT_EQ(op, v1::OP_READ);
      } else {
        unseen.push_back(made.changes[i].Text());
      }
    }
    return unseen;
  }

  // What a reader has who applies the changes from the made transaction on, one by one.
  Texts Here() {
    Texts rows;
    bool told = false;
    for (const SeenTransaction& one : driver_->transactions) {
      told |= IsMade(one);
      if (told) Apply(one, &rows);
    }
    return rows;
  }
  static void Apply(const SeenTransaction& transaction, Texts* rows) {
    for (const SeenChange& change : transaction.changes) {
      if (change.schema.table_name() != "k") continue;
      if (change.change.op() == v1::OP_TRUNCATE) rows->clear();
      if (change.change.before_size() > 0) {
        const auto found = rows->find(Text(change.change.before()));
        ASSERT_NE(found, rows->end()) << "nothing to remove: " << change.Text();
        rows->erase(found);
      }
      if (change.change.after_size() > 0) rows->insert(Text(change.change.after()));
    }
  }
  static std::string Text(const google::protobuf::RepeatedPtrField<v1::Value>& row) {
    return ValueText(row[0]) + "," + (row[1].has_in_parts() ? "large" : ValueText(row[1]));
  }
  Texts There() {
    Texts rows;
    const auto found =
        postgres_->Query("SELECT a, CASE WHEN length(b) > 1000000 THEN 'large' ELSE b END FROM k");
    EXPECT_TRUE(found.ok()) << found.status();
    for (const auto& row : found->rows) {
      rows.insert(row[0].value_or("null") + "," + row[1].value_or("null"));
    }
    return rows;
  }

  postgres::MemoryRows known_;
  std::unique_ptr<SourceDriver> driver_;
};

// proves H4, A48, B009
TEST_F(PostgresWholeReadingTest, WhatIsChangedMeanwhileFollowsTheRows) {
  Start();
  Exec("INSERT INTO k VALUES (-1, 'before')");
  BeginReading();
  ExecEach({"INSERT INTO other VALUES (1)", "INSERT INTO k VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
            "BEGIN; INSERT INTO other VALUES (2); UPDATE k SET b = 'y' WHERE a = -1; COMMIT",
            "DELETE FROM k WHERE b = 'y'", "BEGIN; INSERT INTO k VALUES (2, 'never'); ROLLBACK"});
  ASSERT_TRUE(WaitUntilSent());
  ASSERT_TRUE(ReadUntilMade());
  EXPECT_THAT(CheckMade(*Made(), kRows + 1),
              ElementsAre("insert k a=1 b=x", "insert k a=1 b=x", "insert k a=null b=null",
                          "update k a=-1 b=y before(a=-1 b=before)", "delete k before(a=-1 b=y)"));
  EXPECT_EQ(Made()->record.schema_ids_size(), 1);
  // The others did not wait for it, and its own changes came where they were committed.
  std::vector<std::string> before;
  for (const SeenTransaction& one : driver_->transactions) {
    if (IsMade(one)) break;
    before.push_back(one.changes[0].Text());
  }
  EXPECT_THAT(before, ElementsAre("insert k a=-1 b=before", "insert other id=1", "insert k a=1 b=x",
                                  "insert other id=2", "delete k before(a=-1 b=y)"));
  Exec("DELETE FROM k WHERE a < 10");
  ASSERT_TRUE(driver_->ReadUntilCaughtUp(*postgres_));
  EXPECT_TRUE(Here() == There());
}

TEST_F(PostgresWholeReadingTest, MoreThanIsHeldInMemoryFollowsTheRowsAsWell) {  // proves H4, R30
  Start();
  BeginReading();
  std::vector<std::string> statements;
  for (int i = 0; i < 20; ++i) {
    statements.push_back(
        fmt::format("INSERT INTO k SELECT {}, repeat('y', 1000) FROM generate_series(1, 100)", i));
    statements.push_back("DELETE FROM k WHERE a = " + std::to_string(i + 100));
  }
  // A large transaction among them, and a value in parts.
  statements.push_back("UPDATE k SET b = repeat('z', 200) WHERE a < 20");
  statements.push_back("INSERT INTO k VALUES (7, repeat('L', 3000000))");
  statements.push_back("INSERT INTO k VALUES (NULL, 'last')");
  ExecEach(statements);
  ASSERT_TRUE(ReadUntilMade());
  // So many of a thousand bytes are more than is held.
  EXPECT_GT(CheckMade(*Made(), kRows).size(), 1200u);
  EXPECT_EQ(driver_->open_large(), 0u);
  Exec("INSERT INTO k VALUES (8, 'more')");
  ASSERT_TRUE(driver_->ReadUntilCaughtUp(*postgres_));
  EXPECT_TRUE(Here() == There());
}

TEST_F(PostgresWholeReadingTest, ATruncateComesBehindIt) {  // proves B016
  Start();
  BeginReading();
  // It waits for the reading.
  std::thread truncate([&] { Exec("TRUNCATE k"); });
  EXPECT_TRUE(ReadUntilMade());
  truncate.join();
  CheckMade(*Made(), kRows);
  Exec("INSERT INTO k VALUES (1, 'new')");
  ASSERT_TRUE(driver_->ReadUntilCaughtUp(*postgres_));
  EXPECT_TRUE(Here() == There());
}

// Nothing of what was read before is ever told.
TEST_F(PostgresWholeReadingTest, AnEndedSessionBeginsTheReadingAnew) {  // proves B077
  Start();
  BeginReading();
  Exec("INSERT INTO k SELECT 5, repeat('y', 1000) FROM generate_series(1, 3000)");
  // Of the reading, and of what it does not see.
  ASSERT_TRUE(driver_->ReadUntilTransactions(1));
  EXPECT_EQ(driver_->open_large(), 2u);
  Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'");
  ASSERT_TRUE(driver_->ReadUntil([&] { return driver_->open_large() == 0; }));
  EXPECT_EQ(Made(), nullptr);
  ASSERT_TRUE(driver_->ReadUntil(
      [&] { return driver_->Status().DebugString().find("trying again") != std::string::npos; }));
  ASSERT_TRUE(ReadUntilMade());
  EXPECT_THAT(CheckMade(*Made(), kRows + 3000), IsEmpty());
  ASSERT_TRUE(driver_->ReadUntilCaughtUp(*postgres_));
  EXPECT_TRUE(Here() == There());
}

// A commit that waits for a standby is in the log, and no snapshot sees it.
TEST_F(PostgresWholeReadingTest, ACommitThatIsStreamedBeforeItIsSeen) {
  Start();
  const auto require = [&](const std::string& standby) {
    ASSERT_TRUE(postgres_->AddSetting("synchronous_standby_names", standby).ok());
    Exec("SELECT pg_reload_conf()");
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return Value("SHOW synchronous_standby_names") == standby; }, 60s));
  };
  require("nobody");
  std::thread writer([&] { Exec("INSERT INTO k VALUES (-1, 'waits')"); });
  EXPECT_TRUE(driver_->ReadUntilTransactions(1));
  EXPECT_TRUE(driver_->source().OrderTable({TableOrder::Kind::kRead, "public", "k"}).ok());
  EXPECT_TRUE(driver_->ReadUntil([&] {
    return driver_->Status().DebugString().find("did not see a commit yet") != std::string::npos;
  }));
  EXPECT_EQ(Made(), nullptr);
  require("");
  writer.join();
  ASSERT_TRUE(ReadUntilMade());
  EXPECT_THAT(CheckMade(*Made(), kRows + 1), IsEmpty());
  EXPECT_TRUE(Here() == There());
}

}  // namespace
}  // namespace tidemark::capture
