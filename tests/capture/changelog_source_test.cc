// A changelog as a source: pages, restarts in the middle, large transactions, bounds, trimming, and
// whether it still is the changelog that was read.
#include <fmt/format.h>

#include <random>

#include "absl/time/clock.h"
#include "capture/changelog/source.h"
#include "capture/source_factory.h"
#include "tests/capture/changelog_fixture.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/seed.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class ChangelogSourceTest : public ChangelogFixture {
 protected:
  ChangelogSourceTest() : ChangelogFixture({.settings = {{"autovacuum", "off"}}}) {}

  void SetUp() override {
    ChangelogFixture::SetUp();
    Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
    Install("{item}");
  }
  static std::string Findings(const v1::FeedConfig& config) {
    std::string text;
    for (const Finding& finding : CheckSource(config)) {
      text += finding.reason + ": " + finding.message + ": " + finding.remedy + "\n";
    }
    return text;
  }
  static LogEnd SampledEnd(SourceDriver& driver) {
    std::optional<LogEnd> end;
    EXPECT_TRUE(driver.ReadUntil([&] {
      end = driver.source().SampleEnd();
      return end.has_value();
    }));
    return end.value_or(LogEnd());
  }
};

// The log begins with everything that the changelog holds; rows stand at the boundary before it.
TEST_F(ChangelogSourceTest, BeginsWithEverythingThatTheChangelogHolds) {
  Exec("INSERT INTO item VALUES (1, 'a')");
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_EQ(driver.whole, Position::Of(1, uint64_t{0}));
  EXPECT_EQ(driver.transactions[0].position, Position::Of(1, uint64_t{1}));
  EXPECT_EQ(driver.source().NativeText(driver.transactions[0].position), "transaction 1");
  EXPECT_THAT(driver.Changes(),
              ElementsAre("insert item key={\"id\": 1} row={\"v\": \"a\", \"id\": 1}"));
  Exec("UPDATE item SET id = 2");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_THAT(
      driver.transactions[1].changes,
      ElementsAre(::testing::Property(&SeenChange::Text,
                                      "delete item key_change before(key={\"id\": 1} row={\"v\": "
                                      "\"a\", \"id\": 1}) key(key={\"id\": 1})"),
                  ::testing::Property(&SeenChange::Text,
                                      "insert item key_change key={\"id\": 2} "
                                      "row={\"v\": \"a\", \"id\": 2}")));
  EXPECT_EQ(driver.Status().source_state(), v1::SOURCE_STATE_STREAMING);
  EXPECT_EQ(driver.Status().changelog().table(), "tidemark.changelog");
}

// proves P08, P29: pages of 7 rows, and one transaction of 10,000 all the same.
TEST_F(ChangelogSourceTest, ALargeTransactionIsOneWhateverThePage) {
  for (const std::string strategy : {"snapshot", "xid_watermark"}) {
    Exec("TRUNCATE tidemark.changelog");
    Exec("INSERT INTO item SELECT i, 'x' FROM generate_series(1, 10000) i");
    Exec("INSERT INTO item VALUES (0, 'small')");
    SourceDriver driver(ChangelogOf(*postgres_, strategy, 7));
    ASSERT_TRUE(driver.ReadUntil([&] {
      EXPECT_EQ(driver.checkpoint.changelog().transactions(), driver.transactions.size())
          << "a place within a transaction";
      return driver.transactions.size() >= 2;
    }));
    ASSERT_EQ(driver.transactions[0].changes.size(), 10'000u);
    for (size_t i = 0; i < 10'000; ++i) {
      ASSERT_EQ(driver.transactions[0].changes[i].sequence, i);
      ASSERT_EQ(driver.transactions[0].changes[i].change.after(0).json(),
                fmt::format("{{\"id\": {}}}", i + 1));
    }
    EXPECT_EQ(driver.transactions[1].changes.size(), 1u);
    Exec("DELETE FROM item");
  }
}

// proves P08, P29: what passes the bound in memory comes in parts of many pages, behind none of
// which a checkpoint stands; what was begun is begun again, without a skip or a repeat.
TEST_F(ChangelogSourceTest, ALargeTransactionComesInPartsAndAgainAfterARestart) {
  Exec("INSERT INTO item SELECT i, repeat('x', 500) FROM generate_series(1, 10000) i");
  SourceDriver driver(ChangelogOf(*postgres_, "snapshot", 7));
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.large_parts > 2; }));
  EXPECT_EQ(driver.transactions.size(), 0u);
  EXPECT_EQ(driver.checkpoint.changelog().transactions(), 0u);
  driver.Restart();
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_TRUE(driver.transactions[0].large);
  ASSERT_EQ(driver.transactions[0].changes.size(), 10'000u);
  for (size_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(driver.transactions[0].changes[i].sequence, i);
    ASSERT_EQ(driver.transactions[0].changes[i].change.after(0).json(),
              fmt::format("{{\"id\": {}}}", i + 1));
  }
  EXPECT_EQ(driver.open_large(), 0u);
}

// Killed in the middle of a pull: the rest of that pull first, in its own order, then what was
// committed since, though some of that has lower numbers.
TEST_F(ChangelogSourceTest, APullThatBrokeOffIsFinishedBeforeTheNext) {
  auto late = Session();
  Do(late, "BEGIN");
  Do(late, "INSERT INTO item VALUES (1000, 'late')");
  for (int i = 1; i <= 6; ++i) {
    Exec(fmt::format("INSERT INTO item SELECT i, repeat('x', 4000) FROM generate_series({}, {}) i",
                     i * 100, i * 100 + 99));
  }
  SourceDriver driver(ChangelogOf(*postgres_, "snapshot", 7));
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_LT(driver.transactions.size(), 6u);
  EXPECT_NE(driver.checkpoint.changelog().pulling(), "");
  // It commits before the rest is read, and its number is the lowest of all.
  Do(late, "COMMIT");
  driver.Restart();
  Exec(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE "
      "'tidemark%'");
  ASSERT_TRUE(driver.ReadUntilTransactions(7));
  ASSERT_TRUE(Pulled(driver));
  ASSERT_EQ(driver.transactions.size(), 7u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(driver.transactions[i].changes.size(), 100u);
  EXPECT_EQ(Rows(driver).back(), "{\"v\": \"late\", \"id\": 1000}");
  EXPECT_EQ(driver.checkpoint.changelog().pulling(), "");
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
}

// proves P15: random writers, page sizes and restarts, also of what was read and not confirmed.
TEST_F(ChangelogSourceTest, NothingIsLostOrRepeatedUnderRandomWritersAndKills) {
  std::mt19937_64 random(testing::SeedFromEnvironment());
  SCOPED_TRACE(fmt::format("TIDEMARK_SEED={}", testing::SeedFromEnvironment()));
  std::vector<std::unique_ptr<testing::PgSession>> writers;
  std::vector<bool> open(4, false);
  for (size_t i = 0; i < open.size(); ++i) writers.push_back(Session());
  auto driver = std::make_unique<SourceDriver>(ChangelogOf(*postgres_, "snapshot", 1));
  for (int step = 0; step < 300; ++step) {
    const size_t i = random() % writers.size();
    if (!open[i]) Do(writers[i], "BEGIN");
    open[i] = true;
    // Each writer has rows of its own, and some that all write to, one at a time.
    const uint64_t id = random() % 2 == 0 ? 1000 * (i + 1) + random() % 10 : random() % 5;
    const std::string write = fmt::format(
        "INSERT INTO item VALUES ({}, '{}') ON CONFLICT (id) DO UPDATE SET v = excluded.v", id,
        step);
    Do(writers[i], "SET lock_timeout = '1ms'");
    if (!writers[i]->Exec(write).ok()) {
      Do(writers[i], "ROLLBACK");
      open[i] = false;
    } else if (random() % 3 == 0) {
      Do(writers[i], random() % 5 == 0 ? "ROLLBACK" : "COMMIT");
      open[i] = false;
    }
    driver->confirms = random() % 2 == 0;
    if (random() % 4 == 0) {
      ASSERT_TRUE(Pulled(*driver, 1));
    }
    if (random() % 20 == 0) driver->Restart();
  }
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i]) Do(writers[i], "COMMIT");
  }
  ASSERT_TRUE(Pulled(*driver));
  EXPECT_EQ(Folded(*driver, "item"), Held("item", {"id"}));
  EXPECT_EQ(fmt::format("{}", driver->transactions.size()),
            Value("SELECT count(DISTINCT xid) FROM tidemark.changelog"));
  EXPECT_EQ(fmt::format("{}", driver->Changes().size()),
            Value("SELECT count(*) FROM tidemark.changelog"));
}

// The server is killed: what it has given out of ids without a trace is no loss.
TEST_F(ChangelogSourceTest, ACrashOfTheServerLosesNothing) {
  SourceDriver driver(ChangelogOf(*postgres_));
  for (int i = 1; i <= 3; ++i) {
    Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
    ASSERT_TRUE(driver.ReadUntilTransactions(i));
    auto idle = Session();
    for (int k = 0; k < 20; ++k) Do(idle, "SELECT pg_current_xact_id()");
    ASSERT_TRUE(Pulled(driver));
    ASSERT_TRUE(postgres_->Restart(testing::StopMode::kImmediate).ok());
  }
  for (int i = 4; i <= 30; ++i) Exec(fmt::format("INSERT INTO item VALUES ({}, 'y')", i));
  ASSERT_TRUE(driver.ReadUntilTransactions(30));
  ASSERT_TRUE(Pulled(driver));
  EXPECT_EQ(driver.transactions.size(), 30u);
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
}

// proves P31: by the index, whatever the statistics say.
TEST_F(ChangelogSourceTest, APullReadsByTheIndex) {
  Exec("INSERT INTO item SELECT i, 'x' FROM generate_series(1, 1000) i");
  Exec("ANALYZE tidemark.changelog");
  EXPECT_THAT(Findings(ChangelogOf(*postgres_)), HasSubstr("ready"));
  v1::FeedConfig config = ChangelogOf(*postgres_);
  const auto settings = changelog::SettingsOf(config);
  ASSERT_TRUE(settings.ok());
  const changelog::Statements statements(*settings, {.changed_at = true, .old_row = true});
  auto session = Session();
  Do(session, statements.Begin());
  for (const std::string& explain : {statements.ExplainList(), statements.ExplainPage()}) {
    const auto plan = session->Query(explain);
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::string text;
    for (const auto& row : plan->rows) text += *row[0] + "\n";
    EXPECT_THAT(text, ::testing::Not(HasSubstr("Seq Scan")));
    EXPECT_THAT(text, HasSubstr("Index"));
  }
}

TEST_F(ChangelogSourceTest, WhatMakesItUnusableIsSaidWithWhatMendsIt) {
  Exec("ALTER SEQUENCE tidemark.changelog_seq CACHE 20");
  EXPECT_THAT(Findings(ChangelogOf(*postgres_)),
              HasSubstr("CHANGELOG_UNUSABLE: sequence tidemark.changelog_seq"));
  SourceDriver driver(ChangelogOf(*postgres_));
  EXPECT_EQ(ReasonOf(driver.Open()), reason::kChangelogUnusable);
  Exec("ALTER SEQUENCE tidemark.changelog_seq CACHE 1");
  Exec("DROP INDEX tidemark.changelog_xid_seq");
  EXPECT_THAT(Findings(ChangelogOf(*postgres_)), HasSubstr("CREATE INDEX CONCURRENTLY"));
  Exec("CREATE INDEX ON tidemark.changelog (xid, seq)");
  // A trigger that somebody switched off for a load, and forgot.
  Exec("ALTER TABLE item DISABLE TRIGGER ALL");
  EXPECT_THAT(Findings(ChangelogOf(*postgres_)),
              HasSubstr("ALTER TABLE public.item ENABLE ALWAYS TRIGGER"));
  for (const Finding& finding : CheckSource(ChangelogOf(*postgres_))) Exec(finding.remedy);
  EXPECT_THAT(Findings(ChangelogOf(*postgres_)), HasSubstr("ready"));
  Exec("CREATE ROLE reader LOGIN");
  v1::FeedConfig config = ChangelogOf(*postgres_);
  config.mutable_changelog()->mutable_postgres()->set_user("reader");
  config.mutable_changelog()->set_trim(true);
  // What is said is what mends it.
  EXPECT_THAT(Findings(config), AllOf(HasSubstr("GRANT USAGE ON SCHEMA \"tidemark\""),
                                      HasSubstr("GRANT SELECT, DELETE ON")));
  for (int i = 0; i < 3; ++i) {
    for (const Finding& finding : CheckSource(config)) {
      if (!finding.remedy.empty()) Exec(finding.remedy);
    }
  }
  EXPECT_THAT(Findings(config), HasSubstr("ready"));
  config.mutable_changelog()->set_table("public.nothing");
  EXPECT_THAT(Findings(config), HasSubstr("SOURCE_TABLE_MISSING"));
}

// Any table with columns of the same meaning.
TEST_F(ChangelogSourceTest, AnotherTableWithOtherNames) {
  Exec(
      "CREATE TABLE audit (n bigserial PRIMARY KEY, t xid8 NOT NULL DEFAULT pg_current_xact_id(), "
      "s text, what text, how \"char\", k json, r json)");
  Exec("CREATE INDEX ON audit (t, n)");
  v1::FeedConfig config = ChangelogOf(*postgres_);
  config.mutable_changelog()->set_table("public.audit");
  v1::ChangelogColumns* columns = config.mutable_changelog()->mutable_columns();
  columns->set_seq("n");
  columns->set_xid("t");
  columns->set_schema_name("s");
  columns->set_table_name("what");
  columns->set_op("how");
  columns->set_key("k");
  columns->set_row("r");
  EXPECT_THAT(Findings(config), HasSubstr("ready"));
  Exec(
      "INSERT INTO audit (s, what, how, k, r) VALUES ('app', 'thing', 'I', '{\"id\":1 }', "
      "'{ \"id\":1}'), ('app', 'thing', 'd', '{\"id\":1 }', NULL)");
  SourceDriver driver(config);
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  EXPECT_THAT(driver.Changes(), ElementsAre("insert thing key={\"id\":1 } row={ \"id\":1}",
                                            "delete thing key(key={\"id\":1 })"));
  EXPECT_EQ(driver.transactions[0].changes[0].schema.schema_name(), "app");
  // A row that cannot be told stops the feed until it is corrected.
  Exec("INSERT INTO audit (s, what, how, k) VALUES ('app', 'thing', 'x', '{}')");
  EXPECT_FALSE(driver.ReadUntilTransactions(2));
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kChangelogUnusable);
  EXPECT_THAT(std::string(driver.last_error.message()), HasSubstr("row 3 "));
  Exec("UPDATE audit SET how = 'u' WHERE n = 3");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
}

// ---- Bounds.

// The end is that of the pull that begins with the question, and is proved by it alone.
TEST_F(ChangelogSourceTest, TheEndIsWhereThePullEndsThatBeginsWithTheQuestion) {
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(Pulled(driver));
  auto open = Session();
  Do(open, "BEGIN");
  Do(open, "INSERT INTO item VALUES (1000, 'open')");
  for (int i = 1; i <= 5; ++i) Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
  const LogEnd end = SampledEnd(driver);
  EXPECT_EQ(driver.source().NativeText(end.position), "transaction 5");
  EXPECT_GT(end.clock, absl::Now() - absl::Minutes(1));
  ASSERT_TRUE(driver.source().StopAt({.bound = end.position, .time = std::nullopt}).ok());
  Do(open, "COMMIT");
  Exec("INSERT INTO item VALUES (6, 'x')");
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.finished.has_value(); }));
  EXPECT_EQ(driver.transactions.size(), 5u);
  EXPECT_EQ(*driver.finished, end.position);
  // Idle: it is proved at once, and nothing is written.
  ASSERT_TRUE(driver.source().StopAt({}).ok());
  ASSERT_TRUE(driver.ReadUntilTransactions(7));
  EXPECT_EQ(SampledEnd(driver).position, driver.transactions.back().position);
}

// The server dies when the end was told and nothing was read yet. A transaction that commits then
// has the lowest number of all: counted in, it would leave one out that was there before.
TEST_F(ChangelogSourceTest, AnEndThatWasToldIsThatOfTheSameTransactionsAfterADeath) {
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(Pulled(driver));
  auto late = Session();
  Do(late, "BEGIN");
  Do(late, "INSERT INTO item VALUES (1000, 'late')");
  Exec("INSERT INTO item VALUES (1, 'x')");
  Exec("INSERT INTO item VALUES (2, 'x')");
  const LogEnd end = SampledEnd(driver);
  ASSERT_TRUE(end.checkpoint.has_value());
  EXPECT_EQ(driver.source().NativeText(end.position), "transaction 2");
  // As the server stores it before it answers.
  driver.checkpoint = *end.checkpoint;
  Do(late, "COMMIT");
  driver.Restart();
  ASSERT_TRUE(driver.source().StopAt({.bound = end.position, .time = std::nullopt}).ok());
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.finished.has_value(); }));
  EXPECT_THAT(Rows(driver), ElementsAre("{\"v\": \"x\", \"id\": 1}", "{\"v\": \"x\", \"id\": 2}"));
  ASSERT_TRUE(driver.source().StopAt({}).ok());
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
}

TEST_F(ChangelogSourceTest, CaptureEndsBehindTheTransactionOfThatNumber) {
  for (int i = 1; i <= 5; ++i) Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
  SourceDriver driver(ChangelogOf(*postgres_));
  const auto bound = driver.source().ParseNative("transaction 3", 1);
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(ReasonOf(driver.source().ParseNative("0/16B3748", 1).status()),
            reason::kRequestInvalid);
  ASSERT_TRUE(driver.source().StopAt({.bound = *bound, .time = std::nullopt}).ok());
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.finished.has_value(); }));
  EXPECT_EQ(driver.transactions.size(), 3u);
  const auto passed = driver.source().ParseNative("2", 1);
  EXPECT_EQ(ReasonOf(driver.source().StopAt({.bound = *passed, .time = std::nullopt})),
            reason::kBoundBeforeStart);
  EXPECT_EQ(ReasonOf(driver.source().StopAt({.bound = std::nullopt, .time = absl::Now()})),
            reason::kFeatureUnsupported);
  SourceDriver classic(ChangelogOf(*postgres_, "xid_watermark"));
  EXPECT_EQ(ReasonOf(classic.source().CheckBounded(classic.checkpoint)),
            reason::kFeatureUnsupported);
}

// ---- Trimming.

// proves P32: what is confirmed goes, and nothing before that.
TEST_F(ChangelogSourceTest, RowsGoWhenTheyAreDurableHereAndNotBefore) {
  for (const std::string strategy : {"snapshot", "xid_watermark"}) {
    Exec("TRUNCATE item, tidemark.changelog");
    v1::FeedConfig config = ChangelogOf(*postgres_, strategy, 10);
    config.mutable_changelog()->set_trim(true);
    SourceDriver driver(config);
    driver.confirms = false;
    Exec("INSERT INTO item SELECT i, 'x' FROM generate_series(1, 25) i");
    ASSERT_TRUE(driver.ReadUntilTransactions(2));
    ASSERT_TRUE(Pulled(driver, 5));
    EXPECT_EQ(Value("SELECT count(*) FROM tidemark.changelog"), "26") << strategy;
    auto open = Session();
    Do(open, "BEGIN");
    Do(open, "INSERT INTO item VALUES (100, 'open')");
    driver.confirms = true;
    driver.Restart();
    ASSERT_TRUE(driver.ReadUntil([&] {
      return Value("SELECT count(*) FROM tidemark.changelog") == "0";
    })) << strategy;
    EXPECT_EQ(driver.Status().changelog().rows_trimmed(), 26u) << strategy;
    Do(open, "COMMIT");
    ASSERT_TRUE(driver.ReadUntilTransactions(3));
    ASSERT_TRUE(
        driver.ReadUntil([&] { return Value("SELECT count(*) FROM tidemark.changelog") == "0"; }));
    driver.Restart();
    ASSERT_TRUE(Pulled(driver)) << "an emptied table is no restored one: " << driver.last_error;
    EXPECT_EQ(driver.transactions.size(), 3u);
  }
}

// A lock on the changelog holds up the trimming alone.
TEST_F(ChangelogSourceTest, TrimmingWaitsForALockAndReadingDoesNot) {
  v1::FeedConfig config = ChangelogOf(*postgres_);
  config.mutable_changelog()->set_trim(true);
  Exec("INSERT INTO item VALUES (1, 'x')");
  SourceDriver driver(config);
  auto locker = Session();
  Do(locker, "BEGIN");
  Do(locker, "SELECT FROM tidemark.changelog FOR UPDATE");
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  Exec("INSERT INTO item VALUES (2, 'x')");
  ASSERT_TRUE(driver.ReadUntilTransactions(2));
  EXPECT_EQ(Value("SELECT count(*) FROM tidemark.changelog WHERE key = '{\"id\": 1}'"), "1");
}

// ---- Another one.

// proves P28, X7: a dump that was restored elsewhere, a table that was made anew or emptied.
TEST_F(ChangelogSourceTest, AnotherChangelogIsNotGoneOnWith) {
  Exec("INSERT INTO item VALUES (1, 'a'), (2, 'b')");
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_TRUE(Pulled(driver));

  auto other = testing::LivePostgres::Create(options_);
  ASSERT_TRUE(other.ok()) << other.status();
  const testing::ScratchDir scratch("dump");
  testing::ProcessOptions dump;
  dump.argv = {
      "bash", "-c",
      fmt::format("set -o pipefail; {0}/pg_dump '{1}' | {0}/psql -X -q '{2}'",
                  postgres_->bin_dir().string(), postgres_->conninfo(), (*other)->conninfo())};
  dump.output_dir = scratch.path();
  const auto restored = RunCommand(std::move(dump), 60s);
  ASSERT_TRUE(restored.ok()) << restored.status();
  SourceDriver elsewhere(ChangelogOf(**other));
  elsewhere.checkpoint = driver.checkpoint;
  EXPECT_EQ(ReasonOf(elsewhere.Open()), reason::kSourceReplaced);

  Exec("TRUNCATE tidemark.changelog");
  EXPECT_FALSE(Pulled(driver));
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSourceRewound);
  EXPECT_THAT(std::string(driver.last_error.message()), HasSubstr("trim: true"));
  RunFile(*postgres_, "remove.sql");
  RunFile(*postgres_, "create.sql");
  driver.Restart();
  EXPECT_EQ(ReasonOf(driver.Open()), reason::kSourceReplaced);
}

// Behind a gap, everything that is there is told again, in the next generation.
TEST_F(ChangelogSourceTest, ABreakIsHealedByTellingAgainWhatIsThere) {
  Exec("INSERT INTO item VALUES (1, 'a')");
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_TRUE(Pulled(driver));
  Exec("TRUNCATE tidemark.changelog");
  Exec("INSERT INTO item VALUES (2, 'b')");
  Exec("INSERT INTO item VALUES (3, 'c')");
  v1::BreakRecord* broken = driver.checkpoint.mutable_broken();
  broken->set_reason(std::string(reason::kSourceRewound));
  broken->set_message("it was emptied");
  driver.Restart();
  EXPECT_EQ(ReasonOf(driver.Open()), reason::kSourceRewound) << "until somebody says what to do";
  broken->set_policy(v1::RECOVERY_POLICY_GAP_AND_CONTINUE);
  ASSERT_TRUE(driver.Open().ok());
  const auto healed = driver.source().Read(absl::Now());
  ASSERT_TRUE(healed.ok()) << healed.status();
  ASSERT_TRUE(healed->gap.has_value());
  EXPECT_TRUE(healed->events.empty());
  EXPECT_EQ(healed->gap->to(), healed->checkpoint->position());
  EXPECT_EQ(Position::FromBytes(healed->gap->to())->generation(), 2u);
  EXPECT_FALSE(healed->checkpoint->has_broken());
  ASSERT_TRUE(driver.ReadUntilTransactions(3));
  EXPECT_EQ(driver.transactions[2].position, Position::Of(2, uint64_t{3}));
  EXPECT_EQ(Rows(driver).back(), "{\"v\": \"c\", \"id\": 3}");
}

// ---- Ids beyond 32 bits.

class ChangelogEpochTest : public ChangelogFixture {
 protected:
  // Anything that was written before the reset would lie in its future.
  void SetUp() override {}
  void CreateAt(uint64_t next) {
    PostgresFixture::SetUp();
    ResetNextXid(next);
    RunFile(*postgres_, "create.sql");
  }

 private:
  // What comes next is that id, in a cluster that has never used the ones before.
  void ResetNextXid(uint64_t next) {
    // So is what initdb has written last.
    Exec("VACUUM FREEZE");
    const std::string bin = Value("SELECT setting FROM pg_config WHERE name = 'BINDIR'");
    ASSERT_TRUE(postgres_->Stop().ok());
    const testing::ScratchDir scratch("resetwal");
    const char* user = getenv("TIDEMARK_TEST_USER");
    testing::ProcessOptions reset;
    reset.argv = {bin + "/pg_resetwal",
                  "-f",
                  "-e",
                  fmt::format("{}", next >> 32),
                  "-x",
                  fmt::format("{}", next & UINT32_MAX),
                  "-D",
                  postgres_->data_dir()};
    reset.output_dir = scratch.path();
    if (geteuid() == 0) reset.user = user != nullptr ? user : "tidemark-test";
    reset.working_dir = postgres_->data_dir();
    // The pages of the commit log that it begins on are not there yet.
    const auto done = RunCommand(std::move(reset), 60s);
    ASSERT_TRUE(done.ok()) << done.status();
    MakeCommitLog(next);
    ASSERT_TRUE(postgres_->Start().ok()) << postgres_->Log();
  }
  void MakeCommitLog(uint64_t next) {
    constexpr uint64_t kXidsPerSegment = 32 * 8192 * 4;
    constexpr size_t kSegmentBytes = 32 * 8192;
    const std::string name = fmt::format("{:04X}", (next & UINT32_MAX) / kXidsPerSegment);
    const auto path = postgres_->data_dir() / "pg_xact" / name;
    if (std::filesystem::exists(path)) return;
    std::ofstream(path, std::ios::binary) << std::string(kSegmentBytes, '\0');
    std::filesystem::permissions(path, std::filesystem::perms::all);
  }
};

// proves P09, B149: across the wrap of 32 bits, from a checkpoint before it.
TEST_F(ChangelogEpochTest, IdsBeyondThirtyTwoBitsKeepTheOrder) {
  for (const std::string strategy : {"snapshot", "xid_watermark"}) {
    SCOPED_TRACE(strategy);
    const uint64_t kWrap = uint64_t{2} << 32;
    CreateAt(kWrap - 200);
    Exec("CREATE TABLE item (id int PRIMARY KEY, v text)");
    Install("{item}");
    SourceDriver driver(ChangelogOf(*postgres_, strategy));
    Exec("INSERT INTO item VALUES (1, 'before')");
    ASSERT_TRUE(driver.ReadUntilTransactions(1));
    EXPECT_LT(std::stoull(driver.transactions[0].record.source_transaction_id()), kWrap);
    auto t1 = Session();
    Do(t1, "BEGIN");
    Do(t1, "INSERT INTO item VALUES (2, 'T1')");
    auto burn = Session();
    for (int i = 0; i < 250; ++i) Do(burn, "SELECT pg_current_xact_id()");
    Exec("INSERT INTO item VALUES (3, 'T2')");
    ASSERT_TRUE(Pulled(driver));
    const bool at_once = strategy == "snapshot";
    EXPECT_EQ(driver.transactions.size(), at_once ? 2u : 1u);
    driver.Restart();
    Do(t1, "COMMIT");
    ASSERT_TRUE(driver.ReadUntilTransactions(3));
    const std::vector<std::string> rows = Rows(driver);
    EXPECT_THAT(rows[at_once ? 1 : 2], HasSubstr("T2"));
    EXPECT_THAT(rows[at_once ? 2 : 1], HasSubstr("T1"));
    const SeenTransaction& t2 = driver.transactions[at_once ? 1 : 2];
    EXPECT_GE(std::stoull(t2.record.source_transaction_id()), kWrap);
    Exec("INSERT INTO item VALUES (4, 'after')");
    ASSERT_TRUE(driver.ReadUntilTransactions(4));
    EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
  }
}

}  // namespace
}  // namespace tidemark::capture
