// What the capturing role may do: what is missing is named before anything is made, with what mends
// it, and no row is left out because a role may not see it.
#include "capture/source_factory.h"
#include "tests/capture/postgres_fixture.h"
#include "tests/testing/prepare_source.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

class PostgresPrivilegesTest : public PostgresFixture {
 protected:
  void SetUp() override {
    PostgresFixture::SetUp();
    // Nothing is the public's.
    ExecEach({"REVOKE CONNECT ON DATABASE postgres FROM public", "CREATE SCHEMA app",
              "CREATE SCHEMA types", "CREATE TYPE types.kind AS ENUM ('a', 'b')",
              "CREATE TABLE app.orders (id int, kind types.kind, note text, PRIMARY KEY (kind, "
              "id))",
              "INSERT INTO app.orders VALUES (1, 'a', 'mine'), (2, 'b', 'theirs')"});
    Prepare("app.orders");
    feed_ = FeedOf(*postgres_, {"app.*"});
    feed_.mutable_postgres()->set_user("capture");
    ExpectReady();
  }

  void Prepare(const std::string& tables) {
    const auto output = testing::PrepareSource(*postgres_, {"capture", "tidemark_shop", tables});
    ASSERT_TRUE(output.ok()) << output.status();
  }
  void ExpectReady() {
    const std::vector<Finding> findings = CheckSource(feed_);
    EXPECT_EQ(findings.at(0).severity, Finding::Severity::kOk) << findings.at(0).message;
  }
  // The only error that a check finds.
  Finding Error() {
    std::vector<Finding> findings = CheckSource(feed_);
    std::erase_if(findings, [](const Finding& finding) {
      return finding.severity != Finding::Severity::kError;
    });
    EXPECT_EQ(findings.size(), 1u) << (findings.empty() ? "" : findings.back().message);
    return findings.empty() ? Finding{} : findings[0];
  }
  // A feed that starts now is refused, and leaves nothing behind.
  absl::Status Refusal() {
    SourceDriver driver(feed_);
    (void)driver.ReadUntil([&] { return !driver.errors.empty(); });
    EXPECT_THAT(driver.SnapshotRows(), IsEmpty());
    EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "0");
    return driver.last_error;
  }

  v1::FeedConfig feed_;
};

struct Lack {
  std::string taken_away;
  std::string_view reason;
  std::string message;
  std::string remedy;
};

// proves A29, R57, B167
TEST_F(PostgresPrivilegesTest, EachThatIsMissingIsNamedAndMendedByItsSql) {
  const std::vector<Lack> lacks = {
      {"REVOKE SELECT ON app.orders FROM capture", reason::kSourcePrivilege,
       "role capture may not read table app.orders",
       "GRANT SELECT ON \"app\".\"orders\" TO \"capture\";"},
      {"REVOKE SELECT ON app.orders FROM capture; GRANT SELECT (id, kind) ON app.orders TO capture",
       reason::kSourcePrivilege, "role capture may read only some columns of table app.orders",
       "GRANT SELECT ON \"app\".\"orders\" TO \"capture\";"},
      {"ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY", reason::kSourcePrivilege,
       "row level security would show role capture only some rows of table app.orders",
       "ALTER ROLE \"capture\" BYPASSRLS;"},
      {"REVOKE USAGE ON SCHEMA app FROM capture", reason::kSourcePrivilege,
       "role capture may not use schema app", "GRANT USAGE ON SCHEMA \"app\" TO \"capture\";"},
      {"REVOKE USAGE ON SCHEMA types FROM capture", reason::kSourcePrivilege,
       "holds a type in the key of table app.orders",
       "GRANT USAGE ON SCHEMA types TO \"capture\";"},
      {"ALTER ROLE capture NOREPLICATION", reason::kSourcePrivilege, "REPLICATION",
       "ALTER ROLE \"capture\" REPLICATION;"},
      {"ALTER ROLE capture NOLOGIN", reason::kSourceAuthentication, "is not permitted to log in",
       "ALTER ROLE \"capture\" LOGIN;"},
      {"REVOKE CONNECT ON DATABASE postgres FROM capture", reason::kSourceAuthentication,
       "permission denied for database", "GRANT CONNECT ON DATABASE \"postgres\" TO \"capture\";"},
      {"DROP PUBLICATION tidemark_shop", reason::kPublicationMissing, "owns not all of the tables",
       "CREATE PUBLICATION \"tidemark_shop\" FOR TABLE ONLY \"app\".\"orders\""},
  };
  for (const Lack& lack : lacks) {
    SCOPED_TRACE(lack.taken_away);
    Exec(lack.taken_away);
    const Finding finding = Error();
    EXPECT_EQ(finding.reason, lack.reason);
    EXPECT_THAT(finding.message, HasSubstr(lack.message));
    EXPECT_THAT(finding.remedy, HasSubstr(lack.remedy));
    const absl::Status refusal = Refusal();
    if (lack.reason != reason::kPublicationMissing) {
      EXPECT_EQ(ReasonOf(refusal), lack.reason) << refusal;
      EXPECT_THAT(std::string(refusal.message()), HasSubstr(lack.message));
    }
    Exec(finding.remedy);
    ExpectReady();
  }
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.SnapshotRows().size(), 2u);
}

// It may make the publication itself when the tables are its own and it may create.
TEST_F(PostgresPrivilegesTest, WhatThePublicationNeedsIsNamed) {  // proves A29
  ExecEach({"DROP PUBLICATION tidemark_shop", "ALTER TABLE app.orders OWNER TO capture",
            "ALTER ROLE capture SET default_transaction_read_only = on"});
  const Finding finding = Error();
  EXPECT_EQ(finding.reason, reason::kPublicationMissing);
  EXPECT_EQ(finding.remedy, "GRANT CREATE ON DATABASE \"postgres\" TO \"capture\";");
  EXPECT_EQ(ReasonOf(Refusal()), reason::kSourcePrivilege);
  Exec(finding.remedy);
  ExpectReady();
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(Value("SELECT pg_get_userbyid(pubowner) FROM pg_publication"), "capture");
}

// proves A29: the line that the check prints is the one that lets the role in.
TEST_F(PostgresPrivilegesTest, TheLineOfPgHbaIsNamed) {
  const std::vector<std::string> others = {"local all postgres trust",
                                           "host all postgres 127.0.0.1/32 trust"};
  const auto reload = [this](const std::vector<std::string>& lines) {
    ASSERT_TRUE(postgres_->SetHbaLines(lines).ok());
    Exec("SELECT pg_reload_conf()");
  };
  Exec("ALTER ROLE capture PASSWORD 'right'");
  feed_.mutable_postgres()->set_password("right");
  reload(others);
  Finding finding;
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        finding = CheckSource(feed_).at(0);
        return finding.severity == Finding::Severity::kError;
      },
      20s));
  EXPECT_EQ(finding.reason, reason::kSourceAuthentication);
  EXPECT_THAT(finding.message, HasSubstr("no pg_hba.conf entry"));
  EXPECT_THAT(finding.remedy, AllOf(HasSubstr("host postgres capture 127.0.0.1/32 scram-sha-256"),
                                    HasSubstr("SELECT pg_reload_conf();")));
  std::vector<std::string> lines = others;
  lines.push_back(finding.remedy);
  reload(lines);
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        finding = CheckSource(feed_).at(0);
        return finding.severity == Finding::Severity::kOk;
      },
      20s, [&] { return finding.message; }));
}

// A policy that shows a part, one that shows all, and none, which shows nothing: the changes come
// of all rows, so none of them may be read through it.
TEST_F(PostgresPrivilegesTest, NoRowsAreLeftOutByAPolicy) {  // proves B167
  Exec("ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY");
  for (const char* policy : {"", "CREATE POLICY p ON app.orders USING (note = 'mine')",
                             "CREATE POLICY q ON app.orders USING (true)"}) {
    Exec(policy);
    const absl::Status refusal = Refusal();
    EXPECT_EQ(ReasonOf(refusal), reason::kSourcePrivilege) << refusal;
    EXPECT_FALSE(IsRetried(refusal));
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("row level security"));
  }
  Exec("ALTER ROLE capture BYPASSRLS");
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.SnapshotRows().size(), 2u);
}

TEST_F(PostgresPrivilegesTest, OwnersAreBoundByForcedPoliciesOnly) {  // proves B167
  ExecEach({"ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE app.orders OWNER TO capture"});
  ExpectReady();
  Exec("ALTER TABLE app.orders FORCE ROW LEVEL SECURITY");
  EXPECT_THAT(Error().message, HasSubstr("row level security"));
  EXPECT_EQ(ReasonOf(Refusal()), reason::kSourcePrivilege);
  Exec("ALTER TABLE app.orders NO FORCE ROW LEVEL SECURITY");
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.SnapshotRows().size(), 2u);
}

// Between the look at the privileges and the rows: the snapshot is held up, so that the table can
// be closed meanwhile.
TEST_F(PostgresPrivilegesTest, APolicyThatComesDuringTheSnapshotIsMet) {  // proves B167
  auto open = postgres_->Connect().value();
  ASSERT_TRUE(open->Exec("BEGIN; CREATE TABLE other (id int)").ok());
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntil([&] {
    return driver.Status().detail().find("waiting for transaction") != std::string::npos;
  }));
  // Since when another role's transaction is open is not shown to this one.
  EXPECT_THAT(driver.Status().detail(),
              AllOf(HasSubstr("user postgres):"), Not(HasSubstr("open "))));
  ExecEach({"ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY p ON app.orders USING (note = 'mine')"});
  ASSERT_TRUE(open->Exec("COMMIT").ok());
  EXPECT_FALSE(driver.ReadUntilWhole());
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSourcePrivilege) << driver.last_error;
  EXPECT_THAT(driver.SnapshotRows(), IsEmpty());
}

// A list of columns in the publication does not make a part of the columns enough: nothing is read
// that way in silence, and the whole of it is told.
TEST_F(PostgresPrivilegesTest, SomeColumnsAreNotEnoughForAListOfThem) {  // proves B053, B167
  if (Value("SELECT current_setting('server_version_num')::int >= 150000") != "t") {
    GTEST_SKIP() << "needs PostgreSQL 15: publications before it have no lists of columns";
  }
  ExecEach({"ALTER PUBLICATION tidemark_shop SET TABLE app.orders (id, kind)",
            "REVOKE SELECT ON app.orders FROM capture",
            "GRANT SELECT (id, kind) ON app.orders TO capture"});
  EXPECT_THAT(Error().message, HasSubstr("only some columns"));
  EXPECT_EQ(ReasonOf(Refusal()), reason::kSourcePrivilege);
  Exec("GRANT SELECT ON app.orders TO capture");
  SourceDriver driver(feed_);
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(),
              ElementsAre("read orders id=1 kind=a", "read orders id=2 kind=b"));
}

// proves A29: for the owner of the tables, once there is a role.
TEST_F(PostgresPrivilegesTest, TheOwnerPreparesAsWell) {
  ExecEach({"CREATE ROLE shop LOGIN", "GRANT CREATE, CONNECT ON DATABASE postgres TO shop",
            "CREATE SCHEMA shop AUTHORIZATION shop", "CREATE TABLE shop.item (id int PRIMARY KEY)",
            "ALTER TABLE shop.item OWNER TO shop", "CREATE ROLE reader LOGIN REPLICATION",
            "GRANT CONNECT ON DATABASE postgres TO reader"});
  for (int run = 0; run < 2; ++run) {
    const auto output =
        testing::PrepareSource(*postgres_, {"reader", "of_shop", "shop.item", "shop"});
    ASSERT_TRUE(output.ok()) << output.status();
  }
  feed_ = FeedOf(*postgres_, {"shop.*"});
  feed_.mutable_postgres()->set_user("reader");
  feed_.mutable_postgres()->set_publication("of_shop");
  ExpectReady();
}

// proves A29: every one of them is taken, by sessions that the role may not look into.
TEST_F(PostgresPrivilegesTest, WalsendersOfOthersAreCounted) {
  ExecEach({"ALTER SYSTEM SET max_wal_senders = 1"});
  ASSERT_TRUE(postgres_->Restart().ok());
  auto other = postgres_->Connect("postgres", "replication=database").value();
  const std::vector<Finding> findings = CheckSource(feed_);
  bool named = false;
  for (const Finding& finding : findings) {
    named |= finding.message.find("all 1 of max_wal_senders are in use") != std::string::npos;
  }
  EXPECT_TRUE(named) << findings.at(0).message;
}

}  // namespace
}  // namespace tidemark::capture
