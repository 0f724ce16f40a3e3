// A standby as the source, and what becomes of a feed when one is promoted.
#include <signal.h>

#include "absl/time/clock.h"
#include "capture/postgres/lsn.h"
#include "capture/source_factory.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using postgres::LsnText;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using namespace std::chrono_literals;

constexpr int kDecodesFrom = 160000;

// A primary with table t and its publication, and a standby. Skips what needs a standby that
// decodes its log.
class PostgresStandbyTest : public PostgresFixture {
 protected:
  void SetUp() override {
    PostgresFixture::SetUp();
    if (std::stoi(Value("SHOW server_version_num")) < kDecodesFrom) {
      GTEST_SKIP() << "needs PostgreSQL 16: standbys before it decode nothing";
    }
    Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
    Exec("CREATE PUBLICATION tidemark_shop FOR TABLE t");
    Exec("SELECT pg_create_physical_replication_slot('standby')");
    standby_ = Standby("standby");
  }

  std::unique_ptr<testing::LivePostgres> Standby(const std::string& slot,
                                                 const std::string& feedback = "on") {
    auto standby =
        testing::LivePostgres::CreateStandby(*postgres_, {{"primary_slot_name", slot},
                                                          {"hot_standby_feedback", feedback},
                                                          {"max_standby_streaming_delay", "0"},
                                                          {"wal_receiver_status_interval", "1"}});
    EXPECT_TRUE(standby.ok()) << standby.status();
    return standby.ok() ? *std::move(standby) : nullptr;
  }
  // The slot of a standby waits until its primary says which transactions run.
  void SayWhatRuns() { Exec("SELECT pg_log_standby_snapshot()"); }
  std::unique_ptr<SourceDriver> Started() {
    auto driver = std::make_unique<SourceDriver>(FeedOf(*standby_));
    EXPECT_TRUE(driver->ReadUntil([&] {
      SayWhatRuns();
      return driver->whole.has_value();
    }));
    EXPECT_TRUE(driver->ReadUntilWhole());
    return driver;
  }
  // The standby has replayed everything that was committed before the call.
  void WaitUntilReplayed() {
    const std::string end = Value("SELECT pg_current_wal_flush_lsn()");
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return OnStandby("SELECT pg_last_wal_replay_lsn() >= '" + end + "'") == "t"; }, 30s));
  }
  std::string OnStandby(const std::string& sql) {
    const absl::StatusOr<std::string> value = standby_->QueryValue(sql);
    EXPECT_TRUE(value.ok()) << value.status() << " in " << sql;
    return value.value_or("");
  }

  std::unique_ptr<testing::LivePostgres> standby_;
};

class PostgresStandbyRefusalTest : public PostgresFixture {};

// proves R55: refused by name where the server cannot do it, taken where it can.
TEST_F(PostgresStandbyRefusalTest, AStandbyIsASourceFromSixteenOn) {
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  auto standby = testing::LivePostgres::CreateStandby(*postgres_);
  ASSERT_TRUE(standby.ok()) << standby.status();
  SourceDriver driver(FeedOf(**standby));
  const absl::Status opened = driver.Open();
  std::string findings;
  for (const Finding& finding : CheckSource(FeedOf(**standby))) {
    findings += finding.reason + ": " + finding.message + ": " + finding.remedy + "\n";
  }
  if (std::stoi(Value("SHOW server_version_num")) < kDecodesFrom) {
    EXPECT_EQ(ReasonOf(opened), reason::kSourceVersion);
    EXPECT_THAT(std::string(opened.message()), HasSubstr("version 16"));
    EXPECT_THAT(findings, HasSubstr("SOURCE_VERSION_UNSUPPORTED: the server is a standby"));
    return;
  }
  // No standby makes a publication; the statement is for the primary.
  EXPECT_EQ(ReasonOf(opened), reason::kPublicationMissing);
  EXPECT_THAT(std::string(opened.message()),
              HasSubstr("run on the primary: CREATE PUBLICATION \"tidemark_shop\" FOR TABLE"));
  EXPECT_THAT(findings, HasSubstr("PUBLICATION_MISSING"));
  EXPECT_THAT(findings, HasSubstr("hot_standby_feedback is off"));
}

// proves R55, S16, S50: rows, changes, and a bound that is proved without a write anywhere. Needs
// PostgreSQL 16.
TEST_F(PostgresStandbyTest, RowsThenChangesUpToWhatTheStandbyHasReplayed) {
  Exec("INSERT INTO t VALUES (1, 'one'), (2, 'two')");
  auto driver = Started();
  EXPECT_THAT(driver->SnapshotRows(),
              UnorderedElementsAre("read t id=1 a=one", "read t id=2 a=two"));
  Exec("UPDATE t SET a = 'uno' WHERE id = 1");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  // Killed and started, it answers before it has replayed again what was captured of it.
  ASSERT_TRUE(standby_->Restart(testing::StopMode::kImmediate).ok());
  driver->Restart();
  Exec("DELETE FROM t WHERE id = 2");
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  EXPECT_THAT(driver->Changes(), ElementsAre("update t id=1 a=uno", "delete t key(id=2)"));
  Exec("INSERT INTO t VALUES (3, 'three')");
  WaitUntilReplayed();
  const std::optional<LogEnd> end = driver->source().SampleEnd();
  ASSERT_TRUE(end.has_value());
  ASSERT_TRUE(driver->source().StopAt({.bound = end->position, .time = std::nullopt}).ok());
  Exec("INSERT INTO t VALUES (4, 'four')");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_EQ(driver->Changes().size(), 3u);
  EXPECT_EQ(driver->Changes().back(), "insert t id=3 a=three");
}

// A time is passed once the standby has replayed something that is as new: its own clock says
// nothing of what it has not received. Needs PostgreSQL 16.
TEST_F(PostgresStandbyTest, TheClockOfItsLogIsThatOfWhatItHasReplayed) {
  auto driver = Started();
  const absl::Time before = absl::Now();
  const std::optional<LogEnd> idle = driver->source().SampleEnd();
  ASSERT_TRUE(idle.has_value());
  EXPECT_LT(idle->clock, before);
  Exec("INSERT INTO t VALUES (1, 'one')");
  WaitUntilReplayed();
  const std::optional<LogEnd> written = driver->source().SampleEnd();
  ASSERT_TRUE(written.has_value());
  EXPECT_GE(written->clock, before);
}

// proves H1: the snapshot is of the place that the decoding has come to, and the replay may be
// ahead of it: what it removed meanwhile was to be read. Needs PostgreSQL 16.
TEST_F(PostgresStandbyTest, RowsThatAreRemovedWhileTheSlotIsMadeAreNotMissed) {
  Exec("ALTER TABLE t SET (autovacuum_enabled = off)");
  Exec("INSERT INTO t SELECT i, repeat('x', 3000) FROM generate_series(1, 20) i");
  ASSERT_TRUE(standby_->Exec("ALTER SYSTEM SET hot_standby_feedback = off").ok());
  ASSERT_TRUE(standby_->Exec("SELECT pg_reload_conf()").ok());
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        return Value("SELECT xmin IS NULL FROM pg_replication_slots WHERE slot_name = 'standby'") ==
               "t";
      },
      30s));
  SourceDriver driver(FeedOf(*standby_));
  std::string walsender;
  ASSERT_TRUE(driver.ReadUntil([&] {
    walsender = OnStandby(
        "SELECT max(active_pid) FROM pg_replication_slots WHERE slot_name = 'tidemark_shop'");
    return !walsender.empty();
  }));
  // It sees what runs only after the replay went on.
  ASSERT_EQ(kill(std::stoi(walsender), SIGSTOP), 0);
  SayWhatRuns();
  Exec("UPDATE t SET a = repeat('y', 3000)");
  Exec("VACUUM t");
  WaitUntilReplayed();
  ASSERT_EQ(kill(std::stoi(walsender), SIGCONT), 0);
  ASSERT_TRUE(driver.ReadUntil([&] {
    SayWhatRuns();
    return driver.whole.has_value();
  }));
  EXPECT_EQ(driver.snapshot_rows.size(), 20u);
}

// proves B067, S48: promoted in the middle of the stream, and later in the dark: the same history
// both times. Needs PostgreSQL 16.
TEST_F(PostgresStandbyTest, APromotedStandbyIsGoneOnWith) {
  auto driver = Started();
  Exec("INSERT INTO t VALUES (1, 'before')");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  WaitUntilReplayed();
  ASSERT_TRUE(postgres_->Stop().ok());
  ASSERT_TRUE(standby_->Promote().ok());
  ASSERT_TRUE(standby_->Exec("INSERT INTO t VALUES (2, 'behind')").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  EXPECT_THAT(driver->errors, IsEmpty());
  EXPECT_EQ(driver->checkpoint.postgres().timeline(), 2u) << "as of where it lies";
  EXPECT_THAT(driver->notices, ElementsAre(HasSubstr("it was promoted")));
  driver->Restart();
  ASSERT_TRUE(standby_->Exec("INSERT INTO t VALUES (3, 'later')").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  EXPECT_THAT(driver->errors, IsEmpty());
  EXPECT_THAT(driver->Changes(), ElementsAre("insert t id=1 a=before", "insert t id=2 a=behind",
                                             "insert t id=3 a=later"));
}

TEST_F(PostgresStandbyTest, APromotionInTheDarkIsTold) {  // proves B067, S48. Needs PostgreSQL 16.
  auto driver = Started();
  Exec("INSERT INTO t VALUES (1, 'before')");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  driver->source().Close();
  driver->Restart();
  Exec("INSERT INTO t VALUES (2, 'not read yet')");
  WaitUntilReplayed();
  ASSERT_TRUE(postgres_->Stop().ok());
  ASSERT_TRUE(standby_->Promote().ok());
  ASSERT_TRUE(standby_->Exec("INSERT INTO t VALUES (3, 'behind')").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  ASSERT_TRUE(driver->ReadUntil([&] { return !driver->notices.empty(); }));
  EXPECT_THAT(driver->notices, ElementsAre(HasSubstr("left timeline 1 for timeline 2 at")));
  EXPECT_EQ(driver->checkpoint.postgres().timeline(), 2u);
}

// proves B067, S48: another standby is promoted, and the one that is read follows it. Needs
// PostgreSQL 16.
TEST_F(PostgresStandbyTest, AStandbyThatFollowsAnotherPrimaryIsGoneOnWith) {
  auto driver = Started();
  Exec("SELECT pg_create_physical_replication_slot('heir')");
  auto heir = Standby("heir");
  ASSERT_NE(heir, nullptr);
  Exec("INSERT INTO t VALUES (1, 'before')");
  ASSERT_TRUE(driver->ReadUntilTransactions(1));
  ASSERT_TRUE(postgres_->Stop().ok());
  ASSERT_TRUE(heir->Promote().ok());
  ASSERT_TRUE(heir->Exec("SELECT pg_create_physical_replication_slot('standby')").ok());
  ASSERT_TRUE(standby_
                  ->Exec(fmt::format("ALTER SYSTEM SET primary_conninfo = '{}'",
                                     heir->conninfo("postgres")))
                  .ok());
  ASSERT_TRUE(standby_->Exec("SELECT pg_reload_conf()").ok());
  ASSERT_TRUE(heir->Exec("INSERT INTO t VALUES (2, 'of the heir')").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  EXPECT_THAT(driver->errors, IsEmpty());
  EXPECT_EQ(driver->checkpoint.postgres().timeline(), 2u);
  EXPECT_THAT(driver->notices, ElementsAre(HasSubstr("which it follows")));
  driver->Restart();
  ASSERT_TRUE(heir->Exec("INSERT INTO t VALUES (3, 'later')").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  EXPECT_THAT(driver->errors, IsEmpty());
}

// proves B055: what the primary removes of its catalog ends a slot that it knows nothing of. Needs
// PostgreSQL 16.
TEST_F(PostgresStandbyTest, AConflictLosesTheSlotAndSaysSo) {
  auto driver = Started();
  driver->source().Close();
  driver->Restart();
  ASSERT_TRUE(standby_->Exec("ALTER SYSTEM SET hot_standby_feedback = off").ok());
  ASSERT_TRUE(standby_->Exec("SELECT pg_reload_conf()").ok());
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        ExecEach({"CREATE TABLE gone (i int)", "DROP TABLE gone", "VACUUM pg_class"});
        return OnStandby("SELECT wal_status FROM pg_replication_slots") == "lost";
      },
      60s));
  const absl::Status lost = driver->Open();
  EXPECT_EQ(ReasonOf(lost), reason::kSlotLost);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("hot_standby_feedback = on"));
}

}  // namespace
}  // namespace tidemark::capture
