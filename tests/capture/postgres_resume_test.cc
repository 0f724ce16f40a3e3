// What a source does with the checkpoint that it is opened with: it goes on exactly behind it, or
// says why it cannot.
#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "capture/postgres/lsn.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using namespace std::chrono_literals;

class PostgresResumeTest : public PostgresFixture {
 protected:
  using PostgresFixture::PostgresFixture;

  // A feed of table t whose snapshot is whole.
  std::unique_ptr<SourceDriver> Started() {
    Exec("CREATE TABLE t (id int PRIMARY KEY)");
    auto driver = std::make_unique<SourceDriver>(FeedOf(*postgres_));
    EXPECT_TRUE(driver->ReadUntilWhole());
    return driver;
  }
  v1::Checkpoint At(const SourceDriver& driver, const SeenTransaction& transaction) {
    v1::Checkpoint checkpoint = driver.checkpoint;
    checkpoint.set_position(std::string(transaction.position.bytes()));
    return checkpoint;
  }
  static std::string ReasonOfOpening(SourceDriver& driver) {
    driver.Restart();
    return ReasonOf(driver.Open());
  }
};

TEST_F(PostgresResumeTest, HandoffUnderWritersLosesAndDoublesNothing) {  // proves H1, A46, S30
  Exec("CREATE TABLE t (id bigserial PRIMARY KEY, writer int, v int DEFAULT 0)");
  Exec("INSERT INTO t (writer) SELECT 9 FROM generate_series(1, 20000)");
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      auto session = postgres_->Connect().value();
      while (!stop) {
        EXPECT_TRUE(session
                        ->Exec("BEGIN; INSERT INTO t (writer) VALUES (" + std::to_string(w) +
                               "), (" + std::to_string(w) + "); COMMIT")
                        .ok());
      }
    });
  }
  SourceDriver driver(FeedOf(*postgres_));
  const auto whole = driver.ReadUntilWhole();
  const auto some = driver.ReadUntilTransactions(200);
  stop = true;
  for (std::thread& writer : writers) writer.join();
  ASSERT_TRUE(whole);
  ASSERT_TRUE(some);
  ASSERT_TRUE(driver.ReadUntilCaughtUp(*postgres_));
  std::set<int64_t> seen;
  size_t count = 0;
  for (const SeenChange& row : driver.snapshot_rows) {
    seen.insert(row.change.after(0).integer());
    ++count;
  }
  for (const SeenTransaction& transaction : driver.transactions) {
    EXPECT_EQ(transaction.changes.size(), 2u);
    for (const SeenChange& change : transaction.changes) {
      seen.insert(change.change.after(0).integer());
      ++count;
    }
  }
  EXPECT_EQ(count, seen.size()) << "a row came twice";
  EXPECT_EQ(std::to_string(count), Value("SELECT count(*) FROM t"));
  EXPECT_GT(driver.snapshot_rows.size(), 20000u - 1);
}

TEST_F(PostgresResumeTest, AdjacentCommitsResumeOnBothSides) {  // proves E4, R11, S52, B045
  auto driver = Started();
  driver->confirms = false;
  // Both wrote before either commits: the second commit record begins where the first one ends,
  // unless another process of the server writes just then.
  auto one = postgres_->Connect().value();
  auto two = postgres_->Connect().value();
  size_t pair = 0;
  for (int id = 1; pair == 0 && id < 100; id += 2) {
    ASSERT_TRUE(one->Exec("BEGIN").ok());
    ASSERT_TRUE(two->Exec("BEGIN").ok());
    ASSERT_TRUE(one->Exec("INSERT INTO t VALUES (" + std::to_string(id) + ")").ok());
    ASSERT_TRUE(two->Exec("INSERT INTO t VALUES (" + std::to_string(id + 1) + ")").ok());
    ASSERT_TRUE(one->Exec("COMMIT").ok());
    ASSERT_TRUE(two->Exec("COMMIT").ok());
    ASSERT_TRUE(driver->ReadUntilTransactions(id + 1));
    if (driver->transactions[id - 1].position.engine_low() ==
        driver->transactions[id].record.commit_lsn()) {
      pair = id;
    }
  }
  ASSERT_NE(pair, 0u);
  const std::vector<SeenTransaction> all = driver->transactions;
  for (size_t behind : {pair - 1, pair}) {
    driver->Restart();
    driver->transactions.clear();
    driver->checkpoint = At(*driver, all[behind]);
    ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
    ASSERT_EQ(driver->transactions.size(), all.size() - behind - 1) << "behind " << behind;
    for (size_t i = 0; i < driver->transactions.size(); ++i) {
      EXPECT_EQ(driver->transactions[i].position, all[behind + 1 + i].position);
    }
  }
}

TEST_F(PostgresResumeTest, CopiedRowsThatShareAnLsnComeOnce) {  // proves E5, S08, S52
  auto driver = Started();
  driver->confirms = false;
  auto session = postgres_->Connect().value();
  ASSERT_TRUE(session->CopyIn("COPY t FROM STDIN", "1\n2\n3\n").ok());
  ASSERT_TRUE(session->CopyIn("COPY t FROM STDIN", "4\n5\n6\n").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  driver->checkpoint = At(*driver, driver->transactions[0]);
  driver->transactions.clear();
  driver->Restart();
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  EXPECT_THAT(driver->Changes(), ElementsAre("insert t id=4", "insert t id=5", "insert t id=6"));
}

TEST_F(PostgresResumeTest, RecaptureGivesEqualBytes) {  // proves R07, R06, R14
  Exec("CREATE TABLE u (a int, b text, c numeric[], PRIMARY KEY (b, a))");
  auto driver = Started();
  driver->confirms = false;
  const v1::Checkpoint start = driver->checkpoint;
  ExecEach({"INSERT INTO t SELECT generate_series(1, 30000)", "BEGIN",
            "INSERT INTO u VALUES (1, 'x', '{1.50,NULL}')", "UPDATE u SET a = 2",
            "INSERT INTO t VALUES (-1)", "COMMIT", "TRUNCATE t"});
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  const std::vector<SeenTransaction> first = driver->transactions;
  driver->Restart();
  driver->transactions.clear();
  driver->checkpoint = start;
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(driver->transactions[i].position, first[i].position);
    EXPECT_EQ(driver->transactions[i].run_bytes, first[i].run_bytes);
    EXPECT_EQ(driver->transactions[i].record.SerializeAsString(),
              first[i].record.SerializeAsString());
  }
}

TEST_F(PostgresResumeTest, ConfirmsOnlyWhatWasConfirmedToIt) {  // proves R24, S25, S51, S54, K8
  auto driver = Started();
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  driver->confirms = false;
  const uint64_t held = driver->checkpoint_lsn();
  ExecEach({"INSERT INTO t VALUES (1)", "CREATE TABLE noise AS SELECT generate_series(1, 1000)"});
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  EXPECT_LE(std::stoull(Value("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")),
            held);
  // Close says the last word; what was never confirmed stays unsaid.
  driver->source().Close();
  EXPECT_LE(std::stoull(Value("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")),
            held);
}

TEST_F(PostgresResumeTest, NothingIsMadeBeforeTheStoreHasNotedIt) {  // proves R38
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  SourceDriver driver(FeedOf(*postgres_));
  driver.confirms = false;
  ASSERT_TRUE(driver.Open().ok());
  ASSERT_TRUE(driver.ReadOnce().ok());
  EXPECT_EQ(driver.checkpoint.snapshot_phase(), v1::SNAPSHOT_PHASE_PREPARING);
  EXPECT_EQ(driver.checkpoint.postgres().slot(), "tidemark_shop");
  ASSERT_TRUE(driver.ReadOnce().ok());
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "0");
  EXPECT_EQ(Value("SELECT count(*) FROM pg_publication"), "0");
}

TEST_F(PostgresResumeTest, UnfinishedSnapshotBeginsAnew) {  // proves R38
  Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
  Exec("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntil([&] { return !driver.snapshot_rows.empty(); }));
  EXPECT_FALSE(driver.whole.has_value());
  EXPECT_EQ(driver.Status().source_state(), v1::SOURCE_STATE_SNAPSHOT);
  EXPECT_GT(driver.Status().snapshot().rows_done(), 0u);
  EXPECT_EQ(driver.Status().snapshot().tables(0).table(), "public.t");
  const std::string first = Value("SELECT restart_lsn FROM pg_replication_slots");
  Exec("INSERT INTO t VALUES (0, 'late')");
  driver.Restart();
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.snapshot_rows.size(), 20001u);
  EXPECT_NE(Value("SELECT restart_lsn FROM pg_replication_slots"), first);
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "1");
}

// A table that is rewritten between the snapshot and its lock reads as empty.
TEST_F(PostgresResumeTest, RewritesWhileTheSnapshotBeginsLoseNoRow) {  // proves O5
  Exec("CREATE TABLE t (id int PRIMARY KEY, v int)");
  Exec("INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i");
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    auto session = postgres_->Connect().value();
    for (int i = 0; !stop; ++i) {
      EXPECT_TRUE(session
                      ->Exec(i % 2 == 0 ? "ALTER TABLE t ALTER v TYPE bigint"
                                        : "ALTER TABLE t ALTER v TYPE int")
                      .ok());
    }
  });
  SourceDriver driver(FeedOf(*postgres_));
  // Until it hit once: then the snapshot has to begin again, and is whole in the end.
  EXPECT_TRUE(driver.ReadUntil([&] {
    stop = stop || driver.Status().detail().find("was rewritten") != std::string::npos;
    return driver.whole.has_value();
  }));
  stop = true;
  writer.join();
  EXPECT_EQ(driver.snapshot_rows.size(), 1000u);
}

TEST_F(PostgresResumeTest, ForeignSlotIsNeverTouched) {  // proves S27, R41
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  Exec("SELECT pg_create_logical_replication_slot('tidemark_shop', 'pgoutput')");
  SourceDriver driver(FeedOf(*postgres_));
  absl::Status status = driver.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSlotForeign);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("pg_drop_replication_slot('tidemark_shop')"));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "1");
}

TEST_F(PostgresResumeTest, SlotMovedByHandIsNoticed) {  // proves E8, S47, B057
  auto driver = Started();
  ExecEach({"INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"});
  driver->Restart();
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return Value("SELECT active FROM pg_replication_slots") == "f"; }, 10s));
  Exec("SELECT pg_replication_slot_advance('tidemark_shop', pg_current_wal_lsn())");
  Exec("INSERT INTO t VALUES (3)");
  absl::Status status = driver->Open();
  EXPECT_EQ(ReasonOf(status), reason::kSlotAdvanced);
  EXPECT_FALSE(IsRetried(status));
  EXPECT_EQ(DetailsOf(status)["checkpoint"], postgres::LsnText(driver->checkpoint_lsn()));
}

// Under its name, with its plugin, in its database: nothing but its place tells that it is another.
TEST_F(PostgresResumeTest, ASlotMadeAgainByHandIsNoticed) {  // proves E8, S47, B057
  auto driver = Started();
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  const auto make_again = [&] {
    driver->Restart();
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return Value("SELECT active FROM pg_replication_slots") == "f"; }, 10s));
    Exec("SELECT pg_drop_replication_slot('tidemark_shop')");
    Exec("SELECT pg_create_logical_replication_slot('tidemark_shop', 'pgoutput')");
  };
  make_again();
  EXPECT_EQ(ReasonOf(driver->Open()), reason::kSlotAdvanced) << "nothing was written meanwhile";
  Exec("INSERT INTO t VALUES (2)");
  make_again();
  Exec("INSERT INTO t VALUES (3)");
  const absl::Status status = driver->Open();
  EXPECT_EQ(ReasonOf(status), reason::kSlotAdvanced);
  EXPECT_FALSE(IsRetried(status));
  EXPECT_THAT(driver->Changes(), ElementsAre("insert t id=1"));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "1");
}

TEST_F(PostgresResumeTest, OtherServerOrHistoryIsNoticed) {  // proves S47, S48, B067
  auto driver = Started();
  const v1::Checkpoint good = driver->checkpoint;
  const uint64_t lsn = driver->checkpoint_lsn();

  driver->checkpoint.set_position(std::string(Position::Of(1, lsn + (uint64_t{1} << 30)).bytes()));
  EXPECT_EQ(ReasonOfOpening(*driver), reason::kSourceRewound);
  driver->checkpoint = good;
  driver->checkpoint.mutable_postgres()->set_system_identifier("7000000000000000000");
  EXPECT_EQ(ReasonOfOpening(*driver), reason::kSourceReplaced);
  driver->checkpoint = good;
  driver->checkpoint.mutable_postgres()->set_database("other");
  EXPECT_EQ(ReasonOfOpening(*driver), reason::kSourceReplaced);
  driver->checkpoint = good;
  driver->checkpoint.mutable_postgres()->set_timeline(7);
  EXPECT_EQ(ReasonOfOpening(*driver), reason::kSourceTimeline);
  driver->checkpoint = good;
  EXPECT_EQ(ReasonOfOpening(*driver), "");
}

TEST_F(PostgresResumeTest, FourErrorsOfASlot) {  // proves S36, S60, R33, R39, B061
  auto driver = Started();
  driver->Restart();
  const auto free = [&] {
    return testing::WaitUntil(
        [&] { return Value("SELECT count(*) FROM pg_replication_slots WHERE active") == "0"; },
        10s);
  };
  ASSERT_TRUE(free());
  std::set<std::string> messages;
  const auto expect = [&](std::string_view reason, const std::string& part) {
    driver->Restart();
    absl::Status status = driver->Open();
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_THAT(std::string(status.message()), HasSubstr("tidemark_shop"));
    EXPECT_TRUE(messages.insert(std::string(status.message())).second);
    EXPECT_EQ(IsRetried(status), reason == reason::kSlotActive);
  };
  {
    auto holder = postgres_->Connect("postgres", "replication=database").value();
    ASSERT_TRUE(holder
                    ->Send("START_REPLICATION SLOT tidemark_shop LOGICAL 0/0 (proto_version '1', "
                           "publication_names 'tidemark_shop')")
                    .ok());
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return Value("SELECT active FROM pg_replication_slots") == "t"; }, 10s));
    expect(reason::kSlotActive, "pid " + std::to_string(holder->backend_pid()));
  }
  ASSERT_TRUE(free());
  Exec("SELECT pg_drop_replication_slot('tidemark_shop')");
  expect(reason::kSlotMissing, "is gone");
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "0") << "never made in silence";
  Exec("SELECT pg_create_logical_replication_slot('tidemark_shop', 'test_decoding')");
  expect(reason::kSlotForeign, "test_decoding");
  Exec("SELECT pg_drop_replication_slot('tidemark_shop')");
  Exec("SELECT pg_create_physical_replication_slot('tidemark_shop', true)");
  expect(reason::kSlotForeign, "physical");
  Exec("SELECT pg_drop_replication_slot('tidemark_shop')");
  Exec("CREATE DATABASE other");
  auto other = postgres_->Connect("other").value();
  ASSERT_TRUE(
      other->Exec("SELECT pg_create_logical_replication_slot('tidemark_shop', 'pgoutput')").ok());
  expect(reason::kSlotForeign, "database other");
}

TEST_F(PostgresResumeTest, LostSlotIsAnErrorForAPerson) {  // proves R37, S60, B055
  options_.settings = {
      {"max_slot_wal_keep_size", "2MB"}, {"min_wal_size", "32MB"}, {"max_wal_size", "32MB"}};
  SetUp();
  auto driver = Started();
  driver->Restart();
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return Value("SELECT active FROM pg_replication_slots") == "f"; }, 10s));
  for (int i = 0; i < 4; ++i) {
    ExecEach({"CREATE TABLE junk AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)",
              "DROP TABLE junk", "SELECT pg_switch_wal()", "CHECKPOINT"});
  }
  ASSERT_EQ(Value("SELECT wal_status FROM pg_replication_slots"), "lost");
  absl::Status status = driver->Open();
  EXPECT_EQ(ReasonOf(status), reason::kSlotLost);
  EXPECT_FALSE(IsRetried(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("slot tidemark_shop is lost"));
  EXPECT_EQ(driver->Status().slot().wal_status(), "lost");
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "1");
}

TEST_F(PostgresResumeTest, MissingPublicationIsNoticedBeforeStart) {  // proves H2, S62
  auto driver = Started();
  Exec("DROP PUBLICATION tidemark_shop");
  driver->Restart();
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return Value("SELECT active FROM pg_replication_slots") == "f"; }, 10s));
  EXPECT_EQ(ReasonOf(driver->Open()), reason::kPublicationMissing);
}

TEST_F(PostgresResumeTest, EndedSessionsAndServersLoseNothing) {  // proves R61, B069
  auto driver = Started();
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'");
  Exec("INSERT INTO t VALUES (2)");
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  postgres_->Kill9();
  ASSERT_TRUE(postgres_->Start().ok());
  Exec("INSERT INTO t VALUES (3)");
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  // A server that stops waits for those who read (PostgreSQL 18 also when they have all of it).
  std::atomic<bool> restarted = false;
  std::thread restart([&] {
    EXPECT_TRUE(postgres_->Restart().ok());
    restarted = true;
  });
  EXPECT_TRUE(driver->ReadUntil([&] { return restarted.load(); }, 60s));
  restart.join();
  Exec("INSERT INTO t VALUES (4)");
  ASSERT_TRUE(driver->ReadUntilTransactions(4));
  EXPECT_THAT(driver->Changes(),
              ElementsAre("insert t id=1", "insert t id=2", "insert t id=3", "insert t id=4"));
  EXPECT_FALSE(driver->errors.empty());
}

// proves B067, S48: another timeline is another history only where something was undone.
TEST_F(PostgresResumeTest, APromotionThatUndidNothingIsGoneOnWith) {
  auto driver = Started();
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  driver->source().Close();
  driver->Restart();
  Exec("INSERT INTO t VALUES (2)");
  // It recovers as a standby of nobody, with all of its log and with its slots.
  ASSERT_TRUE(postgres_->Stop().ok());
  std::ofstream(postgres_->data_dir() / "standby.signal").close();
  ASSERT_TRUE(postgres_->Start().ok());
  ASSERT_TRUE(postgres_->Promote().ok());
  Exec("INSERT INTO t VALUES (3)");
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  ASSERT_TRUE(driver->ReadUntil([&] { return !driver->notices.empty(); }));
  EXPECT_THAT(driver->errors, IsEmpty());
  EXPECT_THAT(driver->Changes(), ElementsAre("insert t id=1", "insert t id=2", "insert t id=3"));
  EXPECT_THAT(driver->notices, ElementsAre(HasSubstr("left timeline 1 for timeline 2 at")));
  EXPECT_EQ(driver->checkpoint.postgres().timeline(), 2u);
  // Known from then on.
  driver->Restart();
  Exec("INSERT INTO t VALUES (4)");
  ASSERT_TRUE(driver->ReadUntilTransactions(4));
  EXPECT_EQ(driver->notices.size(), 1u);
}

}  // namespace
}  // namespace tidemark::capture
