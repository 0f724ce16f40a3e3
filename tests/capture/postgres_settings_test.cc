// Settings of the capturing role and of its database: none of them changes what is captured, or
// ends a session.
#include "capture/source_factory.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

// Each would change a text, leave rows out, or end what it is set for.
const std::vector<std::string>& HostileSettings() {
  static const std::vector<std::string> settings = {
      "datestyle = 'German, DMY'",
      "timezone = 'Europe/Berlin'",
      "intervalstyle = 'sql_standard'",
      "extra_float_digits = -10",
      "bytea_output = 'escape'",
      "search_path = 'public'",
      "client_encoding = 'LATIN1'",
      "quote_all_identifiers = on",
      "standard_conforming_strings = off",
      "array_nulls = off",
      "row_security = on",
      "gin_fuzzy_search_limit = 1",
      "statement_timeout = '1ms'",
      "lock_timeout = '1ms'",
      "idle_in_transaction_session_timeout = '1ms'",
      "default_transaction_isolation = 'serializable'",
      "default_transaction_deferrable = on",
      "default_transaction_read_only = on",
      "role = 'nobody'"};
  return settings;
}

class PostgresSettingsTest : public PostgresFixture {
 protected:
  void SetUp() override {
    PostgresFixture::SetUp();
    ExecEach({"CREATE ROLE nobody", "CREATE ROLE capture LOGIN REPLICATION",
              "GRANT nobody TO capture", "GRANT pg_read_all_data TO capture",
              "GRANT CREATE ON DATABASE postgres TO capture"});
  }
  bool ServerHas(const std::string& setting) {
    return Value("SELECT count(*) FROM pg_settings WHERE name = '" + setting + "'") == "1";
  }
  void SetHostile() {
    for (const std::string& setting : HostileSettings()) Exec("ALTER ROLE capture SET " + setting);
    // Longer than a session needs to say that it wants none.
    for (const char* timeout : {"idle_session_timeout", "transaction_timeout"}) {
      if (ServerHas(timeout)) Exec(std::string("ALTER ROLE capture SET ") + timeout + " = '1s'");
    }
    for (const char* setting : {"datestyle = 'German, DMY'", "timezone = 'Europe/Berlin'",
                                "bytea_output = 'escape'", "search_path = 'public'"}) {
      Exec(std::string("ALTER DATABASE postgres SET ") + setting);
    }
  }
  v1::FeedConfig Feed(const std::string& name) {
    v1::FeedConfig config = FeedOf(*postgres_);
    config.set_name(name);
    config.mutable_postgres()->set_user("capture");
    return config;
  }
};

TEST_F(PostgresSettingsTest, NoTextDependsOnThem) {  // proves R52, B039
  ExecEach(
      {"CREATE TABLE v (id int PRIMARY KEY, ts timestamptz, d date, i interval, f float8, b "
       "bytea, m money, r regclass, y regtype, a text[])",
       "INSERT INTO v VALUES (1, '2021-03-28 01:30Z', '2021-02-03', '1 year 2 mons -3 days "
       "04:05:06.789', 0.1::float8 + 0.2, '\\x00ff', 12.34, 'v', 'v', '{NULL,\"NULL\"}')",
       "CREATE PUBLICATION tidemark_plain FOR TABLE v",
       "CREATE PUBLICATION tidemark_hostile FOR TABLE v"});
  SourceDriver plain(Feed("plain"));
  ASSERT_TRUE(plain.ReadUntilWhole());
  const std::vector<std::string> expected = plain.SnapshotRows();
  SetHostile();
  SourceDriver hostile(Feed("hostile"));
  ASSERT_TRUE(hostile.ReadUntilWhole());
  EXPECT_THAT(hostile.errors, IsEmpty());
  EXPECT_EQ(hostile.SnapshotRows(), expected);
  Exec("SET datestyle = 'ISO'; INSERT INTO v SELECT 2, ts, d, i, f, b, m, r, y, a FROM v");
  ASSERT_TRUE(hostile.ReadUntilTransactions(1));
  std::string streamed = hostile.Changes()[0];
  EXPECT_EQ(streamed.substr(streamed.find(" ts=")), expected[0].substr(expected[0].find(" ts=")));
  const std::vector<Finding> findings = CheckSource(Feed("hostile"));
  EXPECT_NE(findings.at(0).severity, Finding::Severity::kError) << findings.at(0).message;
}

// The role may only read by default, and acts as another one: what it makes, it makes all the same.
TEST_F(PostgresSettingsTest, ThePublicationIsMadeAllTheSame) {  // proves R52
  ExecEach({"CREATE TABLE v (id int PRIMARY KEY)", "ALTER TABLE v OWNER TO capture"});
  SetHostile();
  SourceDriver driver(Feed("hostile"));
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(Value("SELECT pg_get_userbyid(pubowner) FROM pg_publication"), "capture");
  EXPECT_THAT(driver.errors, IsEmpty());
}

TEST_F(PostgresSettingsTest, SessionsThatWaitAreNotEnded) {  // proves R52
  Exec("CREATE TABLE v (id int PRIMARY KEY); CREATE PUBLICATION tidemark_hostile FOR TABLE v");
  SetHostile();
  SourceDriver driver(Feed("hostile"));
  ASSERT_TRUE(driver.ReadUntilWhole());
  // One of its sessions waits for longer than the role is given.
  ASSERT_TRUE(driver.ReadUntil([&] {
    return Value(
               "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'capture' AND state = "
               "'idle' AND clock_timestamp() - state_change > '1.5 s'") == "t";
  }));
  EXPECT_THAT(postgres_->Log(), Not(HasSubstr("timeout")));
  EXPECT_THAT(driver.errors, IsEmpty());
}

}  // namespace
}  // namespace tidemark::capture
