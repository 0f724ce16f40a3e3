// The connections with the source over TLS: whom they trust, and what a server that is not trusted
// gets to see.
#include <filesystem>

#include "capture/source_factory.h"
#include "tests/capture/postgres_fixture.h"
#include "tests/testing/certificates.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::capture {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr char kPassword[] = "never-in-clear-text";

class PostgresTlsTest : public PostgresFixture {
 protected:
  void SetUp() override {
    for (const char* authority : {"ours", "other"}) {
      ASSERT_TRUE(certificates_.MakeAuthority(authority).ok());
    }
    const absl::Status made = certificates_.MakeServer("server", "ours", "DNS:localhost");
    ASSERT_TRUE(made.ok()) << made;
    options_.certificate_file = certificates_.Certificate("server");
    options_.key_file = certificates_.Key("server");
    StartPostgres();
  }
  void StartPostgres() {
    options_.settings = {{"log_connections", "on"}};
    // A client that asks for nothing better sends the password as it is.
    options_.hba_lines = {"hostssl all capture 127.0.0.1/32 password",
                          "host all capture 127.0.0.1/32 reject"};
    PostgresFixture::SetUp();
    ExecEach({std::string("CREATE ROLE capture LOGIN REPLICATION PASSWORD '") + kPassword + "'",
              "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)",
              "GRANT SELECT ON t TO capture", "CREATE PUBLICATION tidemark_shop FOR TABLE t"});
  }

  v1::FeedConfig Feed(const std::string& host, const std::string& sslmode,
                      const std::string& sslrootcert = "") {
    v1::FeedConfig config = FeedOf(*postgres_);
    v1::PostgresConfig* postgres = config.mutable_postgres();
    postgres->set_host(host);
    postgres->set_user("capture");
    postgres->set_password(kPassword);
    postgres->set_sslmode(sslmode);
    postgres->set_sslrootcert(sslrootcert);
    return config;
  }
  std::string Authority(const std::string& name) const { return certificates_.Certificate(name); }

  // Captures, and every session that it has is encrypted.
  void ExpectCaptures(const v1::FeedConfig& config) {
    const std::vector<Finding> findings = CheckSource(config);
    EXPECT_EQ(findings.at(0).severity, Finding::Severity::kOk) << findings.at(0).message;
    SourceDriver driver(config);
    ASSERT_TRUE(driver.ReadUntilWhole());
    EXPECT_THAT(driver.SnapshotRows(), ElementsAre("read t id=1"));
    Exec("INSERT INTO t VALUES (2)");
    ASSERT_TRUE(driver.ReadUntilTransactions(1));
    // The stream, and one for the catalog or beside the stream.
    const std::string sessions =
        "SELECT string_agg(DISTINCT backend_type || ' ' || ssl, ', ') FROM pg_stat_ssl JOIN "
        "pg_stat_activity USING (pid) WHERE usename = 'capture'";
    EXPECT_TRUE(driver.ReadUntil([&] {
      return Value(sessions) == "client backend true, walsender true";
    })) << Value(sessions);
  }

  // Refused by the client: the server learns neither the password nor who asks.
  void ExpectRefused(const v1::FeedConfig& config, const std::string& cause) {
    SourceDriver driver(config);
    const absl::Status status = driver.Open();
    EXPECT_EQ(ReasonOf(status), reason::kSourceAuthentication) << status;
    EXPECT_TRUE(IsRetried(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(cause), HasSubstr("check sslmode and sslrootcert"),
                      Not(HasSubstr(kPassword))));
    EXPECT_THAT(driver.Status().detail(), HasSubstr(cause));
    const std::vector<Finding> findings = CheckSource(config);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].reason, reason::kSourceAuthentication);
    EXPECT_THAT(findings[0].message, HasSubstr(cause));
    EXPECT_THAT(postgres_->Log(), Not(HasSubstr("capture")));
  }

  testing::Certificates certificates_;
};

TEST_F(PostgresTlsTest, VerifyFullCarriesEverySession) {  // proves R56
  ExpectCaptures(Feed("localhost", "verify-full", Authority("ours")));
}

TEST_F(PostgresTlsTest, RequireTakesAnyCertificate) {  // proves R56
  ExpectCaptures(Feed("127.0.0.1", "require"));
}

TEST_F(PostgresTlsTest, AServerThatIsNotTrustedLearnsNothing) {  // proves R56, B167
  ExpectRefused(Feed("localhost", "verify-full", Authority("other")), "certificate verify failed");
  ExpectRefused(Feed("localhost", "verify-ca", Authority("other")), "certificate verify failed");
  ExpectRefused(Feed("127.0.0.1", "verify-full", Authority("ours")),
                "does not match host name \"127.0.0.1\"");
  ExpectRefused(Feed("localhost", "verify-full", Authority("none")), "none.pem");
}

TEST_F(PostgresTlsTest, NoClearTextInsteadOfTls) {  // proves R56, B167
  options_.certificate_file.clear();
  StartPostgres();
  for (const char* sslmode : {"require", "verify-ca", "verify-full"}) {
    ExpectRefused(Feed("localhost", sslmode, Authority("ours")), "server does not support SSL");
  }
}

// The server's own rules refuse a session in clear text; that is told, and not taken for a network
// that is down.
TEST_F(PostgresTlsTest, AServerThatWantsTlsSaysSo) {  // proves R56
  SourceDriver driver(Feed("127.0.0.1", "disable"));
  const absl::Status status = driver.Open();
  EXPECT_EQ(ReasonOf(status), reason::kSourceAuthentication) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no encryption"), HasSubstr("pg_hba.conf")));
}

TEST_F(PostgresTlsTest, GoesOnOnceTheAuthorityIsKnown) {  // proves R56
  const testing::ScratchDir scratch("trust");
  const std::string file = scratch / "authorities.pem";
  std::filesystem::copy_file(Authority("other"), file);
  SourceDriver driver(Feed("localhost", "verify-full", file));
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.errors.size() >= 2; }));
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSourceAuthentication);
  std::filesystem::copy_file(Authority("ours"), file,
                             std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(driver.ReadUntilWhole());
}

}  // namespace
}  // namespace tidemark::capture
