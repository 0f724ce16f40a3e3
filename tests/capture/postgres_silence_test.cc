// What is a sign of life of a server, and what is not.
#include <signal.h>

#include "tests/capture/postgres_fixture.h"
#include "tests/testing/tcp_relay.h"

namespace tidemark::capture {
namespace {

using ::testing::IsEmpty;
using namespace std::chrono_literals;

// Long enough for a busy machine to decode a large row in it.
constexpr std::chrono::seconds kSilenceTimeout{3};

class PostgresSilenceTest : public PostgresFixture {
 protected:
  void SetUp() override {
    PostgresFixture::SetUp();
    auto relay = testing::TcpRelay::Start(postgres_->port());
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
    Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
    driver_ = std::make_unique<SourceDriver>(ThroughRelay("shop"));
    ASSERT_TRUE(driver_->ReadUntilWhole());
    ASSERT_TRUE(driver_->ReadUntilCaughtUp(*postgres_));
  }

  v1::FeedConfig ThroughRelay(const std::string& name) {
    v1::FeedConfig config = FeedOf(*postgres_);
    config.set_name(name);
    config.mutable_postgres()->set_port(relay_->port());
    config.mutable_postgres()->mutable_silence_timeout()->set_seconds(kSilenceTimeout.count());
    return config;
  }

  std::unique_ptr<testing::TcpRelay> relay_;
  std::unique_ptr<SourceDriver> driver_;
};

// One message, several times as long on its way as the server may be silent; nothing else can come
// before its end.
TEST_F(PostgresSilenceTest, BytesOfAMessageOnItsWayAreASignOfLife) {  // proves S56
  constexpr uint64_t kRate = 500'000;
  constexpr uint64_t kBytes = 3 * kSilenceTimeout.count() * kRate;
  relay_->SetBytesPerSecond(kRate);
  Exec(fmt::format("INSERT INTO t VALUES (1, repeat('x', {}))", kBytes));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(driver_->ReadUntilTransactions(1));
  EXPECT_THAT(driver_->errors, IsEmpty());
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2 * kSilenceTimeout)
      << "the line was too fast to show anything";
  EXPECT_THAT(driver_->Changes().at(0), ::testing::HasSubstr("insert t id=1"));
}

TEST_F(PostgresSilenceTest, AServerThatStopsInAMessageIsSilent) {  // proves S56
  // More than the kernel holds of what the server has sent.
  constexpr uint64_t kBytes = 16'000'000;
  const pid_t walsender = std::stoi(Value("SELECT active_pid FROM pg_replication_slots"));
  relay_->SetBytesPerSecond(1'000'000);
  Exec(fmt::format("INSERT INTO t VALUES (1, repeat('x', {}))", kBytes));
  const uint64_t before = relay_->bytes_carried();
  ASSERT_TRUE(driver_->ReadUntil([&] { return relay_->bytes_carried() > before + 500'000; }));
  ASSERT_EQ(kill(walsender, SIGSTOP), 0);
  relay_->SetBytesPerSecond(0);
  EXPECT_TRUE(driver_->ReadUntil([&] { return !driver_->errors.empty(); }, 30s));
  EXPECT_EQ(ReasonOf(driver_->last_error), reason::kSourceSilent);
  EXPECT_LT(relay_->bytes_carried(), before + kBytes) << "the message was whole";
  EXPECT_THAT(driver_->transactions, IsEmpty());
  ASSERT_EQ(kill(walsender, SIGCONT), 0);
  ASSERT_TRUE(driver_->ReadUntilTransactions(1));
  EXPECT_EQ(driver_->transactions.size(), 1u);
}

// proves S56: also before there is a stream. A snapshot that was given up begins anew.
TEST_F(PostgresSilenceTest, AServerThatStopsInTheInitialCopyIsSilent) {
  constexpr size_t kRows = 20'000;
  Exec(fmt::format("INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, {}) i",
                   kRows));
  SourceDriver driver(ThroughRelay("other"));
  relay_->SetBytesPerSecond(2'000'000);
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.snapshot_rows.size() > kRows / 20; }));
  const pid_t copying = std::stoi(
      Value("SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY %' AND state = 'active'"));
  ASSERT_EQ(kill(copying, SIGSTOP), 0);
  relay_->SetBytesPerSecond(0);
  EXPECT_TRUE(driver.ReadUntil([&] { return !driver.errors.empty(); }, 30s));
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kSourceSilent);
  EXPECT_THAT(driver.errors.at(0), ::testing::HasSubstr("public.t"));
  EXPECT_FALSE(driver.whole.has_value());
  // The one that stopped stays so: another one answers.
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(driver.snapshot_rows.size(), kRows);
  ASSERT_EQ(kill(copying, SIGCONT), 0);
}

}  // namespace
}  // namespace tidemark::capture
