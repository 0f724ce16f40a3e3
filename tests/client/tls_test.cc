// A server with a certificate: who trusts its authority gets in, nobody else does, and each is
// told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/channel.h"
#include "client/feed_client.h"
#include "client/reason.h"
#include "proto/reason.h"
#include "tests/testing/certificates.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"

namespace tidemark::client {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Counts the rows of a bootstrap and ends behind them.
class RowCounter : public FeedHandler {
 public:
  explicit RowCounter(std::function<void()> stop) : stop_(std::move(stop)) {}
  absl::Status OnRow(const ChangeView&) override {
    ++rows_;
    return absl::OkStatus();
  }
  absl::Status OnRowsEnd(std::string_view) override {
    stop_();
    return absl::OkStatus();
  }
  int rows() const { return rows_; }

 private:
  const std::function<void()> stop_;
  int rows_ = 0;
};

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(certificates_.MakeAuthority("ours").ok());
    ASSERT_TRUE(certificates_.MakeAuthority("other").ok());
    const absl::Status made =
        certificates_.MakeServer("server", "ours", "IP:127.0.0.1,DNS:localhost");
    ASSERT_TRUE(made.ok()) << made;
    auto postgres = testing::LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    ASSERT_TRUE(postgres_
                    ->Exec("create table item (id int primary key); insert into item select "
                           "generate_series(1, 7)")
                    .ok());
    tidemark_ = std::make_unique<testing::LiveTidemark>(
        *postgres_,
        testing::LiveTidemarkOptions{.top_lines = {"tls:", "  certificate_file: " + Path("server"),
                                                   "  key_file: " + certificates_.Key("server")}});
    ASSERT_TRUE(tidemark_->Launch().ok());
    std::string last;
    ASSERT_TRUE(testing::WaitUntil(
        [&] {
          const testing::CommandResult status = Status({"--tls-ca", Path("ours")});
          last = status.out + status.err;
          return status.exit_code == 0 && last.find("STREAMING") != std::string::npos;
        },
        seconds(60), [&] { return last + tidemark_->Diagnostics(); }));
  }

  std::string Path(const std::string& name) const { return certificates_.Certificate(name); }
  testing::CommandResult Status(std::vector<std::string> options) {
    options.insert(options.begin(), {"status", "main", "--json"});
    const auto result = tidemark_->Run(options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(testing::CommandResult{});
  }
  // What a client with these options meets, or OK and the number of rows in the feed.
  absl::StatusOr<int> ReadRows(ChannelOptions options) {
    options.server = tidemark_->address();
    auto channel = MakeChannel(options);
    if (!channel.ok()) return channel.status();
    FeedClientOptions client_options;
    client_options.request.set_feed("main");
    client_options.request.mutable_start()->mutable_snapshot();
    client_options.retries = false;
    FeedClient client(*channel, client_options);
    RowCounter counter([&] { client.Stop(); });
    const absl::Status end = client.Run(counter);
    if (!end.ok()) return end;
    return counter.rows();
  }

  testing::Certificates certificates_;
  std::unique_ptr<testing::LivePostgres> postgres_;
  std::unique_ptr<testing::LiveTidemark> tidemark_;
};

TEST_F(TlsTest, WhoTrustsTheAuthorityReads) {
  const auto rows = ReadRows({.tls_ca_file = Path("ours")});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows, 7);
}

TEST_F(TlsTest, ClearTextIsRefused) {
  const auto rows = ReadRows({});
  EXPECT_EQ(ReasonOf(rows.status()), reason::kServerUnreachable) << rows.status();
  const testing::CommandResult status = Status({});
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_THAT(status.err, AllOf(HasSubstr("SERVER_UNREACHABLE"), HasSubstr("--tls-ca FILE")));
  EXPECT_THAT(status.out, Not(HasSubstr("STREAMING")));
}

TEST_F(TlsTest, AServerOfAnotherAuthorityIsNotTrusted) {
  EXPECT_EQ(ReasonOf(ReadRows({.tls_ca_file = Path("other")}).status()),
            reason::kServerUnreachable);
  const testing::CommandResult status = Status({"--tls-ca", Path("other")});
  EXPECT_EQ(status.exit_code, 3) << status.err;
  EXPECT_THAT(status.err, HasSubstr("SERVER_UNREACHABLE"));
  // The system's authorities do not know it either.
  EXPECT_EQ(ReasonOf(ReadRows({.tls = true}).status()), reason::kServerUnreachable);
}

TEST_F(TlsTest, AFileOfAuthoritiesThatCannotBeReadIsNamed) {
  const testing::CommandResult status = Status({"--tls-ca", Path("none")});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_THAT(status.err, AllOf(HasSubstr("FILE_IO"), HasSubstr("none.pem")));
}

}  // namespace
}  // namespace tidemark::client
