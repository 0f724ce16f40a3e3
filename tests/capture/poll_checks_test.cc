// What is said of a database before it is polled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/poll/checks.h"
#include "proto/reason.h"
#include "tests/capture/poll/polled_postgres.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto Is(Finding::Severity severity, std::string_view reason, const std::string& remedy) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::reason, std::string(reason)),
               Field(&Finding::remedy, HasSubstr(remedy)));
}

class PollChecksTest : public PolledPostgres {
 protected:
  std::vector<Finding> Check(const PolledOptions& options, const std::string& user = "postgres",
                             uint64_t unindexed_rows_max = 0) {
    v1::FeedConfig config = PolledFeedOf(*postgres_, {options});
    config.mutable_poll()->mutable_postgres()->set_user(user);
    config.mutable_poll()->set_unindexed_rows_max(unindexed_rows_max);
    return CheckPoll(config);
  }
};

TEST_F(PollChecksTest, NothingIsMissing) {
  EXPECT_THAT(Check({}), ElementsAre(Is(Finding::Severity::kOk, "", "")));
}

// proves A14
TEST_F(PollChecksTest, WithoutAnIndexASmallTableIsWarnedOfAndALargeOneRefused) {
  Exec(
      "CREATE TABLE u (id int PRIMARY KEY, at timestamptz NOT NULL); CREATE INDEX ON u (at); "
      "INSERT "
      "INTO u SELECT i, now() FROM generate_series(1, 2000) i; ANALYZE u");
  const std::string create = "CREATE INDEX CONCURRENTLY ON \"public\".\"u\" (\"at\", \"id\")";
  EXPECT_THAT(Check({.table = "public.u"}),
              ElementsAre(Is(Finding::Severity::kWarning, reason::kCursorIndexMissing, create)));
  EXPECT_THAT(Check({.table = "public.u"}, "postgres", 1000),
              ElementsAre(Is(Finding::Severity::kError, reason::kCursorIndexMissing, create)));
  PollDriver driver(PolledFeedOf(*postgres_, {{.table = "public.u"}}));
  driver.config.mutable_poll()->set_unindexed_rows_max(1000);
  driver.Restart();
  ASSERT_TRUE(driver.ReadUntilFailed());
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kCursorIndexMissing);
}

// No total order of rows: neither the time of a commit nor what else is no column is a cursor.
TEST_F(PollChecksTest, WhatIsNoColumnIsNoCursor) {  // proves A20
  for (const std::string cursor : {"pg_xact_commit_timestamp(xmin)", "xmin", "ctid"}) {
    EXPECT_THAT(Check({.cursor = cursor}),
                Contains(Is(Finding::Severity::kError, reason::kCursorColumnUnusable, "")))
        << cursor;
  }
}

// proves A10
TEST_F(PollChecksTest, ATableWithoutAUsableKeyIsRefused) {
  Exec("CREATE TABLE u (id int, n int, at timestamptz NOT NULL)");
  EXPECT_THAT(Check({.table = "public.u"}),
              Contains(Is(Finding::Severity::kError, reason::kTableUnreadable, "ADD PRIMARY KEY")));
  EXPECT_THAT(Check({.table = "public.u", .key = {"id"}}),
              Contains(Is(Finding::Severity::kError, reason::kTableUnreadable,
                          "CREATE UNIQUE INDEX CONCURRENTLY ON \"public\".\"u\" (\"id\")")));
  Exec("CREATE UNIQUE INDEX ON u (id)");
  EXPECT_THAT(Check({.table = "public.u", .key = {"id"}}),
              Contains(Is(Finding::Severity::kError, reason::kTableUnreadable, "SET NOT NULL")));
  Exec("ALTER TABLE u ALTER id SET NOT NULL; CREATE INDEX ON u (at, id)");
  EXPECT_THAT(Check({.table = "public.u", .key = {"id"}}),
              ElementsAre(Is(Finding::Severity::kOk, "", "")));
}

// proves A18
TEST_F(PollChecksTest, ACursorThatIsMissingOrOfAnotherTypeIsRefused) {
  Exec("CREATE TABLE u (id int PRIMARY KEY, f float8, i interval, d timestamp(0))");
  for (const char* column : {"f", "i", "none"}) {
    EXPECT_THAT(Check({.table = "public.u", .cursor = column}),
                Contains(Is(Finding::Severity::kError, reason::kCursorColumnUnusable, "")))
        << column;
  }
  // proves A16
  EXPECT_THAT(Check({.table = "public.u", .cursor = "d"}),
              Contains(Is(Finding::Severity::kWarning, reason::kCursorColumnUnusable, "")));
}

// proves A26, A36
TEST_F(PollChecksTest, RowsWithoutACursorAreCountedBeforeTheFirstPoll) {
  Exec("CREATE TABLE u (id int PRIMARY KEY, at timestamptz); CREATE INDEX ON u (at, id)");
  EXPECT_THAT(Check({.table = "public.u"}), ElementsAre(Is(Finding::Severity::kOk, "", "")));
  Exec("INSERT INTO u SELECT i, CASE WHEN i > 4 THEN now() END FROM generate_series(1, 20) i");
  const auto says = [](Finding::Severity severity, const std::string& message) {
    return AllOf(Is(severity, reason::kCursorNull, ""),
                 Field(&Finding::message, HasSubstr(message)));
  };
  EXPECT_THAT(Check({.table = "public.u"}),
              ElementsAre(says(Finding::Severity::kError, "4 rows of table public.u have no at")));
  EXPECT_THAT(Check({.table = "public.u", .null_cursor = "include"}),
              ElementsAre(says(Finding::Severity::kWarning,
                               "all read by each poll, as null_cursor "
                               "says: 4 now")));
  EXPECT_THAT(Check({.table = "public.u", .null_cursor = "exclude"}),
              ElementsAre(says(Finding::Severity::kWarning, "left out, as null_cursor says: 4")));
}

// proves A28
TEST_F(PollChecksTest, EveryMissingRightIsNamedWithItsGrant) {
  Exec(
      "CREATE SCHEMA s; CREATE TABLE s.u (id int PRIMARY KEY, a text, at timestamptz NOT NULL); "
      "CREATE ROLE reader LOGIN");
  const PolledOptions options{.table = "s.u"};
  EXPECT_THAT(Check(options, "reader"),
              Contains(Is(Finding::Severity::kError, reason::kSourcePrivilege,
                          "GRANT USAGE ON SCHEMA \"s\" TO \"reader\"")));
  Exec("GRANT USAGE ON SCHEMA s TO reader; GRANT SELECT (id, at) ON s.u TO reader");
  EXPECT_THAT(Check(options, "reader"),
              Contains(Is(Finding::Severity::kError, reason::kSourcePrivilege,
                          "GRANT SELECT (\"a\") ON \"s\".\"u\" TO \"reader\"")));
  Exec("GRANT SELECT (a) ON s.u TO reader; ALTER TABLE s.u ENABLE ROW LEVEL SECURITY");
  EXPECT_THAT(Check(options, "reader"),
              Contains(Is(Finding::Severity::kError, reason::kSourcePrivilege, "BYPASSRLS")));
}

TEST_F(PollChecksTest, ATombstoneTableHasToFit) {
  EXPECT_THAT(Check({.tombstones = "public.none"}),
              Contains(Is(Finding::Severity::kError, reason::kSourceTableMissing, "")));
  Exec("CREATE TABLE gone (id int, at date)");
  EXPECT_THAT(
      Check({.tombstones = "public.gone"}),
      Contains(Is(Finding::Severity::kError, reason::kCursorColumnUnusable, "ALTER TABLE")));
  // A row that was stamped half a second after its delete would seem to be older.
  Exec(
      "DROP TABLE gone; CREATE TABLE gone (id int NOT NULL, at timestamptz(0)); CREATE INDEX ON "
      "gone (at, id); CREATE INDEX ON gone (id, at)");
  EXPECT_THAT(Check({.tombstones = "public.gone"}),
              ElementsAre(Is(Finding::Severity::kError, reason::kCursorColumnUnusable,
                             "ALTER COLUMN \"at\" TYPE timestamptz;")));
  Exec("ALTER TABLE gone ALTER at TYPE timestamptz");
  EXPECT_THAT(Check({.tombstones = "public.gone"}),
              ElementsAre(Is(Finding::Severity::kWarning, reason::kCursorNull,
                             "ALTER COLUMN \"at\" SET NOT NULL;")));
  Exec("ALTER TABLE gone ALTER at SET NOT NULL");
  EXPECT_THAT(Check({.tombstones = "public.gone"}),
              ElementsAre(Is(Finding::Severity::kOk, "", "")));
  // As coarse as the rows themselves, and said so of those.
  Exec("ALTER TABLE t ALTER at TYPE timestamptz(0)");
  EXPECT_THAT(Check({.tombstones = "public.gone"}),
              Contains(Is(Finding::Severity::kError, reason::kCursorColumnUnusable,
                          "ALTER COLUMN \"at\" TYPE timestamptz(0);")));
  Exec("ALTER TABLE gone ALTER at TYPE timestamptz(0)");
  EXPECT_THAT(Check({.tombstones = "public.gone"}),
              ElementsAre(Is(Finding::Severity::kWarning, reason::kCursorColumnUnusable, "")));
}

TEST_F(PollChecksTest, TombstonesWhoseTextKeyIsOfAnotherCollationAreRefused) {
  Exec(
      "CREATE TABLE u (id text COLLATE \"C\" PRIMARY KEY, at timestamptz NOT NULL); CREATE INDEX "
      "ON "
      "u (at, id); CREATE TABLE gone (id varchar COLLATE \"POSIX\", at timestamptz NOT NULL); "
      "CREATE "
      "INDEX ON gone (at, id); CREATE INDEX ON gone (id, at); INSERT INTO u VALUES ('a', now()); "
      "INSERT INTO gone VALUES ('b', now())");
  const PolledOptions options{.table = "public.u", .tombstones = "public.gone"};
  const std::string mended =
      "ALTER TABLE \"public\".\"gone\" ALTER COLUMN \"id\" TYPE text COLLATE \"C\";";
  const auto error = Is(Finding::Severity::kError, reason::kCursorColumnUnusable, mended);
  // The server compares them as soon as both have rows, and fails.
  EXPECT_FALSE(postgres_->Exec("SELECT FROM u, gone WHERE u.id = gone.id").ok());
  EXPECT_THAT(Check(options), ElementsAre(error));
  // It takes the other one for the database's own, and the tombstones are in an order of their own.
  Exec("ALTER TABLE gone ALTER id TYPE text COLLATE \"default\"");
  Exec("ALTER TABLE u ALTER id TYPE text COLLATE \"en-US-x-icu\"");
  EXPECT_THAT(Check(options),
              ElementsAre(Is(Finding::Severity::kError, reason::kCursorColumnUnusable,
                             "TYPE text COLLATE \"en-US-x-icu\"")));
  PollDriver driver(PolledFeedOf(*postgres_, {options}));
  ASSERT_TRUE(driver.ReadUntilFailed());
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kCursorColumnUnusable);
  Exec("ALTER TABLE gone ALTER id TYPE text COLLATE \"en-US-x-icu\"");
  EXPECT_THAT(Check(options), ElementsAre(Is(Finding::Severity::kOk, "", "")));
}

// The databases of tests are made with C.UTF-8.
TEST_F(PollChecksTest, TombstonesWhoseCollationIsTheDatabasesByNameAreWarnedOfAndPolled) {
  Exec(
      "CREATE TABLE u (id text PRIMARY KEY, at timestamptz NOT NULL); CREATE INDEX ON u (at, id); "
      "CREATE TABLE gone (id text COLLATE \"C.utf8\", at timestamptz NOT NULL); CREATE INDEX ON "
      "gone (at, id); CREATE INDEX ON gone (id, at); INSERT INTO u VALUES ('a', now()), ('b', "
      "now())");
  const PolledOptions options{.table = "public.u", .tombstones = "public.gone"};
  EXPECT_THAT(Check(options),
              ElementsAre(Is(Finding::Severity::kWarning, reason::kCursorIndexMissing,
                             "TYPE text COLLATE \"default\"")));
  auto driver = Begin(PolledFeedOf(*postgres_, {options}));
  Exec("DELETE FROM u WHERE id = 'a'; INSERT INTO gone VALUES ('a', now())");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre("delete u key(id=a)"));
  Exec("ALTER TABLE gone ALTER id TYPE text COLLATE \"default\"");
  EXPECT_THAT(Check(options), ElementsAre(Is(Finding::Severity::kOk, "", "")));
}

// proves A14
TEST_F(PollChecksTest, TombstonesWithoutAnIndexAreWarnedOf) {
  Exec("CREATE TABLE gone (id int NOT NULL, at timestamptz NOT NULL)");
  const PolledOptions options{.tombstones = "public.gone"};
  const std::string by_stamp = "CREATE INDEX CONCURRENTLY ON \"public\".\"gone\" (\"at\", \"id\")";
  const std::string by_key = "CREATE INDEX CONCURRENTLY ON \"public\".\"gone\" (\"id\", \"at\")";
  const auto warning = [](const std::string& create) {
    return Is(Finding::Severity::kWarning, reason::kCursorIndexMissing, create);
  };
  EXPECT_THAT(Check(options), ElementsAre(warning(by_stamp), warning(by_key)));
  Exec("CREATE INDEX ON gone (at, id)");
  EXPECT_THAT(Check(options), ElementsAre(warning(by_key)));
  // Part of the rows is not all of them.
  Exec("CREATE INDEX ON gone (id) WHERE id > 7");
  EXPECT_THAT(Check(options), ElementsAre(warning(by_key)));
  Exec("CREATE INDEX ON gone (id)");
  EXPECT_THAT(Check(options), ElementsAre(Is(Finding::Severity::kOk, "", "")));
}

// proves A14
TEST_F(PollChecksTest, TombstonesWhoseKeyIsOfAnotherTypeAreFoundByNoIndex) {
  Exec(
      "CREATE TABLE u (id bigint, name varchar(10), at timestamptz NOT NULL, PRIMARY KEY (id, "
      "name)); CREATE INDEX ON u (at, id, name); CREATE TABLE gone (id int, name varchar(5), at "
      "timestamptz NOT NULL); CREATE INDEX ON gone (at, id); CREATE INDEX ON gone (id, name, at)");
  const PolledOptions options{.table = "public.u", .tombstones = "public.gone"};
  const auto warning = [](const std::string& remedy) {
    return Is(Finding::Severity::kWarning, reason::kCursorIndexMissing,
              "ALTER TABLE \"public\".\"gone\" ALTER COLUMN " + remedy);
  };
  const auto ready = ElementsAre(Is(Finding::Severity::kOk, "", ""));
  EXPECT_THAT(Check(options), ElementsAre(warning("\"id\" TYPE bigint;")));
  Exec("ALTER TABLE gone ALTER id TYPE bigint");
  EXPECT_THAT(Check(options), ready) << "a longer one holds it as it is";
  Exec("ALTER TABLE gone ALTER name TYPE text");
  EXPECT_THAT(Check(options), ElementsAre(warning("\"name\" TYPE character varying(10);")));
  Exec("ALTER TABLE u ALTER name TYPE text; ALTER TABLE gone ALTER name TYPE varchar(5)");
  EXPECT_THAT(Check(options), ready);
  Exec("CREATE DOMAIN number AS bigint; ALTER TABLE gone ALTER id TYPE number");
  EXPECT_THAT(Check(options), ready);
}

TEST_F(PollChecksTest, AnIndexThatIsEnteredByNoOrderIsNone) {
  Exec(
      "CREATE TABLE gone (id int NOT NULL, at timestamptz NOT NULL); CREATE INDEX ON gone USING "
      "brin (at); CREATE INDEX ON gone USING hash (id)");
  EXPECT_THAT(
      Check({.tombstones = "public.gone"}),
      ElementsAre(
          Is(Finding::Severity::kWarning, reason::kCursorIndexMissing, "(\"at\", \"id\")"),
          Is(Finding::Severity::kWarning, reason::kCursorIndexMissing, "(\"id\", \"at\")")));
}

// Before the move it is polled whatever the log lacks; the move refuses that itself.
TEST_F(PollChecksTest, WhatTheLogLacksIsAWarningBesideAPollBlock) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_postgres()->set_host("127.0.0.1");
  config.mutable_postgres()->set_port(1);
  config.mutable_postgres()->set_database("postgres");
  config.mutable_postgres()->set_user("postgres");
  const auto error = ::testing::Field(&Finding::severity, Finding::Severity::kError);
  const std::vector<Finding> findings = CheckSource(config);
  EXPECT_THAT(findings, Contains(Is(Finding::Severity::kWarning, reason::kSourceUnreachable, "")));
  EXPECT_THAT(findings, ::testing::Not(Contains(error)));
  Exec("DROP TABLE t");
  EXPECT_THAT(CheckSource(config),
              Contains(Is(Finding::Severity::kError, reason::kSourceTableMissing, "")));
}

TEST_F(PollChecksTest, AServerThatCannotBeReachedIsAFinding) {
  ASSERT_TRUE(postgres_->Stop().ok());
  EXPECT_THAT(Check({}),
              ElementsAre(Is(Finding::Severity::kError, reason::kSourceUnreachable, "")));
}

}  // namespace
}  // namespace tidemark::capture
