// Transactions that the server sends while they are in progress are captured as those that it sends
// at their commit.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two feeds of one database: `early` asks for transactions in progress, `late` does not.
class PostgresInProgressTest : public PostgresFixture {
 protected:
  PostgresInProgressTest() {
    options_.settings = {{"max_prepared_transactions", "5"}, {"autovacuum", "off"}};
  }

  void SetUp() override {
    PostgresFixture::SetUp();
    // The least that there is.
    Exec("ALTER ROLE postgres SET logical_decoding_work_mem = '64kB'");
    ExecEach({"CREATE TABLE t (id int PRIMARY KEY, a text)",
              "CREATE TABLE u (id int PRIMARY KEY, n int, big text)",
              "ALTER TABLE u ALTER big SET STORAGE EXTERNAL",
              "CREATE TABLE v (a int, b text, PRIMARY KEY (b, a))",
              "CREATE TABLE w (id int PRIMARY KEY)"});
  }
  void Start() {
    late_ = std::make_unique<SourceDriver>(Feed("late", false));
    ASSERT_TRUE(late_->ReadUntilWhole());
    early_ = std::make_unique<SourceDriver>(Feed("early", true));
    ASSERT_TRUE(early_->ReadUntilWhole());
  }
  v1::FeedConfig Feed(const std::string& name, bool in_progress) {
    v1::FeedConfig config = FeedOf(*postgres_);
    config.set_name(name);
    config.mutable_postgres()->set_stream_in_progress(in_progress);
    return config;
  }
  v1::InProgressStatus Held() const { return early_->Status().in_progress(); }
  // Rows of t, enough to be sent early.
  static std::string Rows(int from, int count = 2000) {
    return fmt::format("INSERT INTO t SELECT i, repeat('x', 50) FROM generate_series({}, {}) i",
                       from, from + count - 1);
  }
  // A transaction of these statements, left open, of which something is held.
  std::unique_ptr<testing::PgSession> Open(const std::vector<std::string>& statements) {
    const uint32_t held = Held().transactions();
    auto session = postgres_->Connect().value();
    EXPECT_TRUE(session->Exec("BEGIN").ok());
    for (const std::string& sql : statements) {
      const absl::Status done = session->Exec(sql);
      EXPECT_TRUE(done.ok()) << done << " in " << sql;
    }
    EXPECT_TRUE(early_->ReadUntil([&] { return Held().transactions() > held; }));
    return session;
  }
  void CatchUp() {
    ASSERT_TRUE(early_->ReadUntilCaughtUp(*postgres_));
    ASSERT_TRUE(late_->ReadUntilCaughtUp(*postgres_));
  }
  // Position, record and bytes of everything.
  void ExpectSame() {
    ASSERT_NO_FATAL_FAILURE(CatchUp());
    ASSERT_EQ(early_->transactions.size(), late_->transactions.size());
    for (size_t i = 0; i < early_->transactions.size(); ++i) {
      const SeenTransaction& early = early_->transactions[i];
      const SeenTransaction& late = late_->transactions[i];
      SCOPED_TRACE(fmt::format("transaction {}", i));
      ASSERT_EQ(early.position, late.position);
      ASSERT_EQ(early.record.SerializeAsString(), late.record.SerializeAsString())
          << early.record.ShortDebugString() << late.record.ShortDebugString();
      ASSERT_TRUE(early.run_bytes == late.run_bytes);
    }
    EXPECT_FALSE(late_->Status().has_in_progress());
    EXPECT_EQ(Held().transactions(), 0u);
    EXPECT_EQ(Held().bytes(), 0u);
  }
  void BreakConnection() {
    const std::string active =
        "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'tidemark_early'";
    Exec("SELECT pg_terminate_backend((" + active + "))");
  }
  // Errors that say so.
  std::vector<std::string> GivenUp() const {
    std::vector<std::string> errors;
    std::copy_if(early_->errors.begin(), early_->errors.end(), std::back_inserter(errors),
                 [](const std::string& error) {
                   return error.find("stream_in_progress is given up") != std::string::npos;
                 });
    return errors;
  }
  // Ids of the rows of t that were inserted, in order.
  std::vector<int64_t> Ids() const {
    std::vector<int64_t> ids;
    for (const SeenTransaction& transaction : early_->transactions) {
      for (const SeenChange& change : transaction.changes) {
        if (change.schema.table_name() == "t") ids.push_back(change.change.after(0).integer());
      }
    }
    return ids;
  }

  std::unique_ptr<SourceDriver> late_;
  std::unique_ptr<SourceDriver> early_;
};

// proves S61, R07
TEST_F(PostgresInProgressTest, EverythingIsByteForByteTheSame) {
  Exec("INSERT INTO u SELECT i, 0, repeat('y', 4000) FROM generate_series(1, 200) i");
  Start();
  ExecEach({Rows(1),
            // A large one of one part, and one of many.
            "INSERT INTO t SELECT i, repeat('z', 500) FROM generate_series(10001, 25000) i",
            // Values that the updates leave out.
            "BEGIN", "UPDATE u SET n = n + 1", "UPDATE u SET n = n + 1", "UPDATE u SET id = -id",
            "DELETE FROM u WHERE id % 3 = 0", "COMMIT",
            // Rolled back.
            "BEGIN", Rows(30'001), "ROLLBACK", "BEGIN", Rows(30'001), "SAVEPOINT one", Rows(40'001),
            "ROLLBACK TO one", "SAVEPOINT two", Rows(50'001), "SAVEPOINT three", Rows(60'001),
            "RELEASE three", "ROLLBACK TO two", "SAVEPOINT four", Rows(70'001), "RELEASE four",
            Rows(80'001, 10), "COMMIT",
            // Emptied in between.
            "BEGIN", Rows(100'001), "TRUNCATE t, u", Rows(110'001), "COMMIT",
            // Another shape, and one that never was.
            "BEGIN", Rows(120'001), "ALTER TABLE t ADD COLUMN b int DEFAULT 7", Rows(130'001),
            "COMMIT", "BEGIN", Rows(140'001), "SAVEPOINT s", "ALTER TABLE t ADD COLUMN never int",
            Rows(150'001), "ROLLBACK TO s", Rows(160'001), "COMMIT", Rows(170'001, 1),
            // Prepared, too.
            "BEGIN", Rows(180'001), "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'", "BEGIN",
            Rows(190'001), "PREPARE TRANSACTION 'q'", "ROLLBACK PREPARED 'q'",
            // Nothing of it stays.
            "BEGIN", "SAVEPOINT s", Rows(200'001), "ROLLBACK TO s", "COMMIT"});
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_GE(Held().committed(), 7u) << "they did not come early";
  // From 18 on the server sends nothing of one that it knows to be rolled back.
  if (Value("SELECT current_setting('server_version_num')::int < 180000") == "t") {
    EXPECT_GE(Held().rolled_back(), 2u);
  }
  EXPECT_EQ(Held().transactions(), 0u);
  EXPECT_THAT(early_->errors, IsEmpty());
  for (const auto& [id, schema] : early_->schemas) {
    for (const v1::Column& column : schema.columns()) EXPECT_NE(column.name(), "never");
  }
}

// proves S61: the server announces a table once for a transaction, be it in what is rolled back.
TEST_F(PostgresInProgressTest, TablesThatASavepointNamedFirst) {
  Start();
  ExecEach({"BEGIN", "SAVEPOINT s",
            "INSERT INTO v SELECT i, repeat('x', 50) FROM generate_series(1, 2000) i",
            "INSERT INTO w SELECT generate_series(1, 2000)", "ROLLBACK TO s", Rows(1),
            "INSERT INTO v SELECT i, repeat('x', 50) FROM generate_series(3001, 5000) i", "COMMIT",
            "INSERT INTO w VALUES (1)", "INSERT INTO v VALUES (1, 'x')"});
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(Held().committed(), 1u);
  EXPECT_THAT(early_->Changes(), Contains("insert w id=1"));
}

// proves S61, K2, R02: by the ends of their commits, and small ones do not wait for them.
TEST_F(PostgresInProgressTest, TwoAtATimeAndSmallOnesBetween) {
  Start();
  const auto first = Open({Rows(1)});
  const auto second = Open({Rows(10'001)});
  EXPECT_EQ(Held().transactions(), 2u);
  EXPECT_GT(Held().bytes(), 100'000u);
  const uint64_t before = early_->checkpoint_lsn();
  Exec("INSERT INTO w VALUES (1)");
  ASSERT_TRUE(early_->ReadUntilTransactions(1));
  ASSERT_TRUE(early_->ReadUntilCaughtUp(*postgres_));
  EXPECT_GT(early_->checkpoint_lsn(), before) << "what is in progress holds nothing back";
  ASSERT_TRUE(first->Exec(Rows(5001)).ok());
  ASSERT_TRUE(second->Exec(Rows(15'001)).ok());
  ASSERT_TRUE(second->Exec("COMMIT").ok());
  Exec("INSERT INTO w VALUES (2)");
  ASSERT_TRUE(first->Exec("COMMIT").ok());
  Exec("INSERT INTO w VALUES (3)");
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(Held().committed(), 2u);
  std::vector<size_t> changes;
  for (const SeenTransaction& seen : early_->transactions) changes.push_back(seen.changes.size());
  EXPECT_THAT(changes, ElementsAre(1, 4000, 1, 4000, 1));
  EXPECT_EQ(Ids().front(), 10'001) << "the one that began later ended sooner";
}

// proves S61: columns that are published are no business of who writes to the table.
TEST_F(PostgresInProgressTest, OtherColumnsArePublishedMeanwhile) {
  Start();
  // Nothing of t is left to be sent when that changes.
  const auto open =
      Open({Rows(1), "INSERT INTO u SELECT i, 0, repeat('y', 50) FROM generate_series(1, 2000) i"});
  Exec("ALTER PUBLICATION tidemark_early SET TABLE t (id), u, v, w");
  Exec("INSERT INTO t VALUES (-1, 'a')");
  ASSERT_TRUE(early_->ReadUntilTransactions(1));
  ASSERT_TRUE(open->Exec("COMMIT").ok());
  Exec("INSERT INTO t VALUES (-2, 'a')");
  ASSERT_TRUE(early_->ReadUntilTransactions(3));
  EXPECT_EQ(Held().committed(), 1u);
  EXPECT_EQ(early_->transactions[0].changes[0].Text(), "insert t id=-1");
  ASSERT_EQ(early_->transactions[1].changes.size(), 4000u);
  for (const size_t row : {0, 1999}) {
    EXPECT_THAT(early_->transactions[1].changes[row].Text(),
                HasSubstr(fmt::format("insert t id={} a=xxx", row + 1)));
  }
  EXPECT_EQ(early_->transactions[2].changes[0].Text(), "insert t id=-2");
}

// proves S11, S12, S61, K2: it is reached while a transaction is in progress, and nothing of that
// belongs to it.
TEST_F(PostgresInProgressTest, ABoundIsReachedBesideIt) {
  Start();
  const auto open = Open({Rows(1)});
  Exec("INSERT INTO w VALUES (1)");
  const std::optional<LogEnd> end = early_->source().SampleEnd();
  ASSERT_TRUE(end.has_value());
  ASSERT_TRUE(early_->source().StopAt({.bound = end->position, .time = std::nullopt}).ok());
  early_->source().Prove(end->position);
  ASSERT_TRUE(early_->ReadUntil([&] { return early_->finished.has_value(); }));
  EXPECT_EQ(*early_->finished, end->position);
  EXPECT_THAT(early_->Changes(), ElementsAre("insert w id=1"));
  ASSERT_TRUE(open->Exec("COMMIT").ok());
  // Whoever lifts the bound gets it.
  early_->Restart();
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(Ids().size(), 2000u);
}

// proves S61, R06, R07: the server sends it again from its beginning.
TEST_F(PostgresInProgressTest, ABrokenConnectionLosesNothing) {
  Start();
  const auto open = Open({Rows(1)});
  Exec("INSERT INTO w VALUES (1)");
  ASSERT_TRUE(early_->ReadUntilTransactions(1));
  ASSERT_TRUE(early_->ReadUntilCaughtUp(*postgres_));
  BreakConnection();
  ASSERT_TRUE(early_->ReadUntil([&] { return !early_->errors.empty(); }));
  EXPECT_EQ(Held().transactions(), 0u);
  ASSERT_TRUE(open->Exec(Rows(10'001)).ok());
  ASSERT_TRUE(early_->ReadUntil([&] { return Held().transactions() == 1; }));
  // As a restart of the server does.
  early_->Restart();
  ASSERT_TRUE(open->Exec(Rows(20'001)).ok());
  ASSERT_TRUE(early_->ReadUntil([&] { return Held().transactions() == 1; }));
  ASSERT_TRUE(open->Exec("COMMIT").ok());
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(Held().committed(), 1u);
  const std::vector<int64_t> ids = Ids();
  EXPECT_EQ(ids.size(), 6000u);
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), ids.size());
}

// proves S61: the connection breaks while it is handed over.
TEST_F(PostgresInProgressTest, ABreakWhileItIsHandedOver) {
  Start();
  early_->confirms = false;
  Exec("INSERT INTO t SELECT i, repeat('z', 500) FROM generate_series(1, 15000) i");
  ASSERT_TRUE(early_->ReadUntil([&] { return early_->open_large() > 0; }));
  ASSERT_THAT(early_->transactions, IsEmpty());
  BreakConnection();
  early_->source().Close();
  early_->confirms = true;
  early_->Restart();
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(early_->transactions.size(), 1u);
  EXPECT_EQ(early_->open_large(), 0u);
}

// proves S61: what cannot be held comes at its commit.
TEST_F(PostgresInProgressTest, WithoutRoomItIsAskedForAtTheCommit) {
  Start();
  early_->scratch_folder += "/missing";
  early_->Restart();
  Exec(Rows(1));
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_THAT(GivenUp(),
              ElementsAre(AllOf(HasSubstr(early_->scratch_folder), HasSubstr("Nothing is lost"))));
  EXPECT_THAT(early_->Status().detail(), AllOf(HasSubstr("stream_in_progress is not in force"),
                                               HasSubstr(early_->scratch_folder)));
  Exec(Rows(10'001));
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_EQ(GivenUp().size(), 1u) << "once";
  EXPECT_EQ(Held().committed(), 0u);
  EXPECT_EQ(Ids().size(), 4000u);
}

TEST_F(PostgresInProgressTest, TheStatusSaysNothingWhereNoneCame) {
  Start();
  Exec("INSERT INTO w VALUES (1)");
  ASSERT_NO_FATAL_FAILURE(ExpectSame());
  EXPECT_FALSE(early_->Status().has_in_progress());
  EXPECT_THAT(early_->Status().detail(), Not(HasSubstr("stream_in_progress")));
}

}  // namespace
}  // namespace tidemark::capture
