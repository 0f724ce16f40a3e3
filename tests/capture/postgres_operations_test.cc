// Life beside other sessions, other settings and other people.
#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "capture/source_factory.h"
#include "tests/capture/postgres_fixture.h"
#include "tests/testing/prepare_source.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class PostgresOperationsTest : public PostgresFixture {
 protected:
  std::unique_ptr<SourceDriver> Started() {
    Exec("CREATE TABLE t (id int PRIMARY KEY)");
    auto driver = std::make_unique<SourceDriver>(FeedOf(*postgres_));
    EXPECT_TRUE(driver->ReadUntilWhole());
    return driver;
  }
};

// Stops the server while `driver` is read, and says how long that took.
std::chrono::milliseconds FastStop(testing::LivePostgres& postgres, SourceDriver& driver) {
  std::atomic<bool> stopped = false;
  std::thread reader([&] {
    while (!stopped && driver.ReadOnce(20ms).ok()) {
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(postgres.Stop().ok());
  const auto took = std::chrono::steady_clock::now() - begin;
  stopped = true;
  reader.join();
  return std::chrono::duration_cast<std::chrono::milliseconds>(took);
}

TEST_F(PostgresOperationsTest, FastShutdownIsNotBlocked) {  // proves K9, S49, B069
  auto driver = Started();
  EXPECT_LT(FastStop(*postgres_, *driver), 5s * testing::kDeadlineFactor);
  ASSERT_TRUE(postgres_->Start().ok());
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  Exec("INSERT INTO t VALUES (2)");
  EXPECT_LT(FastStop(*postgres_, *driver), 5s * testing::kDeadlineFactor);
  ASSERT_TRUE(postgres_->Start().ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  EXPECT_THAT(driver->Changes(), ElementsAre("insert t id=1", "insert t id=2"));
}

// Nothing can be confirmed while the store stalls, and the database stops all the same.
TEST_F(PostgresOperationsTest, FastShutdownWaitsForNoStore) {  // proves K9, S49
  auto driver = Started();
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  driver->confirms = false;
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  EXPECT_LT(FastStop(*postgres_, *driver), 5s * testing::kDeadlineFactor);
}

TEST_F(PostgresOperationsTest, SlotInUseIsWaitedFor) {  // proves B061, R41
  auto driver = Started();
  driver->Restart();
  auto holder = postgres_->Connect("postgres", "replication=database").value();
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return Value("SELECT active FROM pg_replication_slots") == "f"; }, 10s));
  ASSERT_TRUE(holder
                  ->Send("START_REPLICATION SLOT tidemark_shop LOGICAL 0/0 (proto_version '1', "
                         "publication_names 'tidemark_shop')")
                  .ok());
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->errors.size() >= 2; }));
  EXPECT_EQ(ReasonOf(driver->last_error), reason::kSlotActive);
  EXPECT_THAT(driver->Status().detail(),
              HasSubstr("in use by pid " + std::to_string(holder->backend_pid())));
  holder.reset();
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "1");
}

TEST_F(PostgresOperationsTest, WaitingForAnOpenTransactionIsSaid) {  // proves B071
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  auto open = postgres_->Connect().value();
  ASSERT_TRUE(open->Exec("BEGIN").ok());
  ASSERT_TRUE(open->Exec("INSERT INTO t VALUES (1)").ok());
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntil([&] {
    return driver.Status().source_state() == v1::SOURCE_STATE_WAITING &&
           driver.Status().detail().find("(pid " + std::to_string(open->backend_pid())) !=
               std::string::npos;
  }));
  ASSERT_TRUE(open->Exec("COMMIT").ok());
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read t id=1"));
}

// The one in the way, not the one that was prepared first.
TEST_F(PostgresOperationsTest, ThePreparedTransactionThatIsWaitedForIsNamed) {  // proves B071
  options_.settings = {{"max_prepared_transactions", "5"}};
  SetUp();
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  auto open = postgres_->Connect().value();
  ASSERT_TRUE(open->Exec("BEGIN").ok());
  ASSERT_TRUE(open->Exec("INSERT INTO t VALUES (1)").ok());
  SourceDriver driver(FeedOf(*postgres_));
  const auto waits_for = [&](const std::string& whom) {
    return driver.ReadUntil([&] {
      return driver.Status().source_state() == v1::SOURCE_STATE_WAITING &&
             driver.Status().detail().find(whom) != std::string::npos;
    });
  };
  ASSERT_TRUE(waits_for("(pid " + std::to_string(open->backend_pid())));
  Exec("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'later'");
  ASSERT_TRUE(open->Exec("PREPARE TRANSACTION 'sooner'").ok());
  ASSERT_TRUE(waits_for("('sooner')"));
  ExecEach({"COMMIT PREPARED 'sooner'"});
  ASSERT_TRUE(waits_for("('later')"));
  ExecEach({"COMMIT PREPARED 'later'"});
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read t id=1", "read t id=2"));
}

TEST_F(PostgresOperationsTest, ServerWithLittlePatienceNeverGivesUp) {  // proves B063
  options_.settings = {{"wal_sender_timeout", "2s"}};
  SetUp();
  Exec("CREATE TABLE other (id int, a text)");
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  SourceDriver driver(FeedOf(*postgres_, {"public.t"}));
  ASSERT_TRUE(driver.ReadUntilWhole());
  Exec("INSERT INTO t SELECT generate_series(1, 300000)");
  Exec("INSERT INTO other SELECT i, repeat('x', 100) FROM generate_series(1, 300000) i");
  // Nobody reads for longer than the server's patience: the store is busy.
  ASSERT_TRUE(driver.ReadOnce().ok());
  testing::WaitUntil([] { return false; }, 5000ms);
  Exec("INSERT INTO t VALUES (0)");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_EQ(driver.transactions[0].changes.size(), 300000u);
  EXPECT_THAT(postgres_->Log(), Not(HasSubstr("due to replication timeout")));
  EXPECT_THAT(driver.errors, ::testing::IsEmpty());
}

TEST_F(PostgresOperationsTest, PasswordStandsInNoText) {  // proves B167
  options_.hba_lines = {"host all scram_user 127.0.0.1/32 scram-sha-256"};
  SetUp();
  Exec("CREATE ROLE scram_user LOGIN REPLICATION PASSWORD 'right'");
  v1::FeedConfig config = FeedOf(*postgres_);
  config.mutable_postgres()->set_user("scram_user");
  config.mutable_postgres()->set_password("hunter2wrong");
  SourceDriver driver(config);
  absl::Status status = driver.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourceAuthentication);
  EXPECT_TRUE(IsRetried(status));
  EXPECT_THAT(status.ToString(), Not(HasSubstr("hunter2wrong")));
  EXPECT_THAT(driver.Status().DebugString(), Not(HasSubstr("hunter2wrong")));
  for (const Finding& finding : CheckSource(config)) {
    EXPECT_EQ(finding.reason, reason::kSourceAuthentication);
    EXPECT_THAT(finding.message + finding.remedy, Not(HasSubstr("hunter2wrong")));
  }
}

TEST_F(PostgresOperationsTest, SilentServerIsGivenUpAndFoundAgain) {  // proves S56
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  v1::FeedConfig config = FeedOf(*postgres_);
  config.mutable_postgres()->mutable_silence_timeout()->set_seconds(1);
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilWhole());
  // Idle is not silent: the server answers when asked.
  const auto idle_until = std::chrono::steady_clock::now() + 2500ms;
  while (std::chrono::steady_clock::now() < idle_until) ASSERT_TRUE(driver.ReadOnce().ok());
  postgres_->Pause();
  ASSERT_TRUE(driver.ReadUntil([&] { return !driver.errors.empty(); }, 20s));
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSourceSilent);
  postgres_->Resume();
  Exec("INSERT INTO t VALUES (1)");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
}

TEST_F(PostgresOperationsTest, InterruptEndsAWait) {
  auto driver = Started();
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] { driver->source().Interrupt(); });
  while (driver->ReadOnce(30s).ok()) {
    if (std::chrono::steady_clock::now() - begin > 100ms) break;
    driver->source().Interrupt();
  }
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(PostgresOperationsTest, StatusTellsSlotAndLag) {  // proves R59
  auto driver = Started();
  // The first look comes before the slot is streamed from.
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->Status().slot().active_pid() > 0; }));
  v1::FeedStatus status = driver->Status();
  EXPECT_EQ(status.source_state(), v1::SOURCE_STATE_STREAMING);
  EXPECT_EQ(status.slot().name(), "tidemark_shop");
  EXPECT_EQ(status.slot().wal_status(), "reserved");
  EXPECT_TRUE(status.slot().has_seen());
  EXPECT_FALSE(status.slot().has_headroom_bytes()) << "the server has no limit";
  EXPECT_TRUE(status.snapshot().has_finished());
  EXPECT_TRUE(status.lag().has_heard());
}

// A long snapshot is when the slot is most likely to be given up.
TEST_F(PostgresOperationsTest, TheSlotIsLookedAtWhileRowsAreRead) {  // proves R57
  options_.settings = {{"max_slot_wal_keep_size", "512MB"}};
  SetUp();
  Exec("CREATE TABLE t (id int PRIMARY KEY, note text)");
  Exec("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 100000) i");
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntil(
      [&] { return driver.Status().source_state() == v1::SOURCE_STATE_SNAPSHOT; }));
  ASSERT_TRUE(driver.ReadOnce().ok());
  const v1::FeedStatus status = driver.Status();
  EXPECT_EQ(status.source_state(), v1::SOURCE_STATE_SNAPSHOT) << "rows are still to come";
  EXPECT_TRUE(status.slot().has_seen());
  EXPECT_EQ(status.slot().wal_status(), "reserved");
  EXPECT_TRUE(status.slot().has_headroom_bytes());
  EXPECT_LT(status.lag().bytes(), 16u << 20) << "what was written since the snapshot";
}

TEST_F(PostgresOperationsTest, ExhaustedSlotsAndSettingsAreNamed) {  // proves S53, R57
  options_.settings = {{"max_replication_slots", "1"}};
  SetUp();
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  Exec("SELECT pg_create_physical_replication_slot('taken')");
  SourceDriver driver(FeedOf(*postgres_));
  EXPECT_FALSE(driver.ReadUntilWhole());
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSlotsExhausted);

  options_.settings = {{"wal_level", "replica"}};
  SetUp();
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  SourceDriver replica(FeedOf(*postgres_));
  EXPECT_EQ(ReasonOf(replica.Open()), reason::kSourceSetting);
  const std::vector<Finding> findings = CheckSource(FeedOf(*postgres_));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].remedy, HasSubstr("ALTER SYSTEM SET wal_level = logical"));
}

TEST_F(PostgresOperationsTest, FindingsAreMendedByTheirSql) {  // proves A29, R57
  ExecEach({"CREATE ROLE capture LOGIN", "CREATE SCHEMA app",
            "CREATE TABLE app.orders (id int PRIMARY KEY)", "CREATE TABLE app.\"Log\" (a int)",
            "INSERT INTO app.orders VALUES (1)"});
  v1::FeedConfig config = FeedOf(*postgres_, {"app.*"});
  config.mutable_postgres()->set_user("capture");
  // Some findings show only once others are mended.
  for (int round = 0; round < 5; ++round) {
    const std::vector<Finding> findings = CheckSource(config);
    ASSERT_FALSE(findings.empty());
    if (findings[0].severity == Finding::Severity::kOk) break;
    ASSERT_LT(round, 4) << findings[0].message;
    for (const Finding& finding : findings) {
      EXPECT_FALSE(finding.reason.empty());
      ASSERT_FALSE(finding.remedy.empty()) << finding.message;
      // Each on its own: a repeated statement may fail, its purpose is reached.
      (void)postgres_->Exec(finding.remedy);
    }
  }
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read orders id=1"));
}

// Their rows would be read, and not one of their changes would ever come.
TEST_F(PostgresOperationsTest, PartitionsThatAreNotLoggedAreRefused) {  // proves B014, R57
  ExecEach({"CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER s FOREIGN DATA WRAPPER w",
            "CREATE TABLE pa (id int, k int) PARTITION BY LIST (k)",
            "ALTER TABLE pa REPLICA IDENTITY FULL",
            "CREATE UNLOGGED TABLE pa1 PARTITION OF pa FOR VALUES IN (1)",
            "CREATE FOREIGN TABLE pa2 PARTITION OF pa FOR VALUES IN (2) SERVER s",
            "INSERT INTO pa VALUES (7, 1)"});
  SourceDriver refused(FeedOf(*postgres_));
  const absl::Status status = refused.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourceSetting);
  EXPECT_FALSE(IsRetried(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("public.pa1 is UNLOGGED"), HasSubstr("public.pa2 is a foreign")));
  const std::vector<Finding> findings = CheckSource(FeedOf(*postgres_));
  ASSERT_EQ(findings.size(), 1u) << findings.back().message;
  EXPECT_EQ(findings[0].severity, Finding::Severity::kError);
  EXPECT_EQ(findings[0].reason, reason::kSourceSetting);
  Exec(findings[0].remedy);
  EXPECT_NE(CheckSource(FeedOf(*postgres_)).at(0).severity, Finding::Severity::kError);
  SourceDriver driver(FeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.Changes(), ElementsAre(HasSubstr("id=7 k=1"))) << "it has no key";
}

TEST_F(PostgresOperationsTest, EveryFindingSaysWhatMendsIt) {  // proves R57
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  const auto of = [](const std::vector<Finding>& findings, std::string_view reason) {
    for (const Finding& finding : findings) {
      if (finding.reason == reason) return finding;
    }
    return Finding();
  };
  EXPECT_THAT(
      of(CheckSource(FeedOf(*postgres_, {"public.no"})), reason::kSourceTableMissing).remedy,
      HasSubstr("create the table"));
  Exec("SELECT pg_create_physical_replication_slot('tidemark_shop')");
  const Finding foreign = of(CheckSource(FeedOf(*postgres_)), reason::kSlotForeign);
  EXPECT_THAT(foreign.remedy, HasSubstr("pg_drop_replication_slot('tidemark_shop')"));
  Exec(foreign.remedy);
  EXPECT_EQ(CheckSource(FeedOf(*postgres_)).at(0).severity, Finding::Severity::kOk);
}

// It says of itself when it gives a slot up: nothing on an older server, and off by default.
TEST_F(PostgresOperationsTest, ATimeoutOfIdleSlotsIsWarnedOf) {  // proves R57
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  const bool has = Value(
                       "SELECT count(*) FROM pg_settings WHERE name = "
                       "'idle_replication_slot_timeout'") == "1";
  EXPECT_EQ(CheckSource(FeedOf(*postgres_)).at(0).severity, Finding::Severity::kOk);
  if (has)
    ExecEach({"ALTER SYSTEM SET idle_replication_slot_timeout = '1d'", "SELECT pg_reload_conf()"});
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        const Finding found = CheckSource(FeedOf(*postgres_)).at(0);
        return !has ||
               (found.severity == Finding::Severity::kWarning &&
                found.message.find("idle_replication_slot_timeout is 1d") != std::string::npos &&
                !found.remedy.empty());
      },
      10s));
}

// It is there, and is said to be what it is.
TEST_F(PostgresOperationsTest, WhatIsNotLoggedIsNamedForWhatItIs) {  // proves R57
  ExecEach({"CREATE TABLE t (id int PRIMARY KEY)", "CREATE UNLOGGED TABLE u (id int PRIMARY KEY)",
            "CREATE VIEW v AS SELECT * FROM t", "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
            "CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER s FOREIGN DATA WRAPPER w",
            "CREATE FOREIGN TABLE f (id int) SERVER s"});
  const std::vector<std::pair<std::string, std::string>> named = {
      {"public.v", "public.v is a view"},
      {"public.m", "public.m is a materialized view"},
      {"public.f", "public.f is a foreign table"},
      {"public.u", "public.u is UNLOGGED"}};
  for (const auto& [table, what] : named) {
    SourceDriver driver(FeedOf(*postgres_, {"public.t", table}));
    const absl::Status status = driver.Open();
    EXPECT_EQ(ReasonOf(status), reason::kSourceSetting) << table;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    const std::vector<Finding> findings = CheckSource(FeedOf(*postgres_, {"public.t", table}));
    EXPECT_EQ(findings.at(0).reason, reason::kSourceSetting);
    EXPECT_THAT(findings.at(0).message, HasSubstr(what));
    EXPECT_FALSE(findings.at(0).remedy.empty());
    if (table == "public.u") Exec(findings.at(0).remedy);
  }
  SourceDriver mended(FeedOf(*postgres_, {"public.t", "public.u"}));
  EXPECT_TRUE(mended.Open().ok());
  // A pattern passes them over, and says so.
  const std::vector<Finding> findings = CheckSource(FeedOf(*postgres_, {"public.*"}));
  EXPECT_EQ(findings.back().severity, Finding::Severity::kOk);
  EXPECT_THAT(findings.back().message,
              HasSubstr("public.f is a foreign table, public.m is a materialized view, public.v is "
                        "a view"));
}

TEST_F(PostgresOperationsTest, PrepareSourceSqlIsEnough) {  // proves A29
  ExecEach({"CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE \"Log\" (id int PRIMARY KEY)",
            "INSERT INTO orders VALUES (1)"});
  for (int run = 0; run < 2; ++run) {  // It can be run again.
    const auto output = testing::PrepareSource(
        *postgres_, {"capture", "tidemark_shop", "public.orders, public.\"Log\""});
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_THAT(*output, HasSubstr("wal_level is logical: good"));
  }
  v1::FeedConfig config = FeedOf(*postgres_);
  config.mutable_postgres()->set_user("capture");
  const std::vector<Finding> findings = CheckSource(config);
  EXPECT_EQ(findings.at(0).severity, Finding::Severity::kOk) << findings.at(0).message;
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read orders id=1"));
}

TEST_F(PostgresOperationsTest, MissingPrivilegeIsNamed) {  // proves A29, R61
  ExecEach({"CREATE ROLE plain LOGIN", "CREATE TABLE t (id int PRIMARY KEY)"});
  v1::FeedConfig config = FeedOf(*postgres_);
  config.mutable_postgres()->set_user("plain");
  SourceDriver driver(config);
  absl::Status status = driver.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourcePrivilege);
  EXPECT_THAT(std::string(status.message()), HasSubstr("REPLICATION"));
}

TEST_F(PostgresOperationsTest, UnreachableIsRetried) {
  v1::FeedConfig config = FeedOf(*postgres_);
  ASSERT_TRUE(postgres_->Stop().ok());
  SourceDriver driver(config);
  absl::Status status = driver.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourceUnreachable);
  EXPECT_TRUE(IsRetried(status));
}

}  // namespace
}  // namespace tidemark::capture
