// The consumers with plain generated stubs, run by the commands that client/README.md shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/client/readme_command.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Far above the 4 MiB that a channel takes in one message.
constexpr size_t kLargeBytes = size_t{50} << 20;

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

class ConsumersTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql("create table account (id bigint primary key, owner text, photo bytea);"
        "insert into account values (1, 'Ann', '\\x00ff')");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }

  ProcessOptions Shell(const std::string& name, const std::string& script) {
    ProcessOptions options;
    options.argv = {"bash", "-euc", script};
    options.environment = {{"SERVER", tidemark_->address()},
                           {"BUILD", BuildDir().string()},
                           {"CURSOR_FILE", (tidemark_->scratch_dir() / "cursor").string()}};
    options.output_dir = tidemark_->scratch_dir();
    options.working_dir = SourceDir();
    options.name = name;
    return options;
  }
  // Makes what the consumer needs, by the README's own command.
  void Prepare() {
    // Tests run side by side, and prepare in the same folders.
    const std::string script =
        "exec 9> \"$BUILD/prepare.lock\"; flock 9\n" + ReadmeCommand(GetParam() + " prepare");
    const auto made = RunCommand(Shell("prepare", script), minutes(5));
    ASSERT_TRUE(made.ok()) << made.status();
  }
  std::unique_ptr<Process> Consume(const std::string& name) {
    auto process = Process::Start(Shell(name, ReadmeCommand(GetParam())));
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? *std::move(process) : nullptr;
  }
  // Its cursor is that of the newest transaction.
  bool HasFinished() {
    std::string cursor = FileText(tidemark_->scratch_dir() / "cursor");
    if (cursor.empty()) return false;
    cursor.pop_back();
    const auto inspected = tidemark_->Run({"cursor", "inspect", "main", cursor, "--json"});
    return inspected.ok() && Count(inspected->out, "\"behind_bytes\": \"0\"") == 1;
  }
  // Integers of 64 bits are strings in JavaScript.
  std::string Number(const std::string& digits) const {
    return GetParam() == "node" ? "\"" + digits + "\"" : digits;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

// proves R02, R04, R09
TEST_P(ConsumersTest, SeesEveryChangeOnceAcrossItsOwnDeathAndTheServers) {
  Prepare();
  auto consumer = Consume("first");
  ASSERT_TRUE(consumer->WaitForLine("\"owner\":\"Ann\"", seconds(60)).ok())
      << consumer->Diagnostics();
  EXPECT_EQ(Count(consumer->Stdout(), "\"__op\":\"read\""), 1u);
  EXPECT_THAT(consumer->Stdout(), ::testing::HasSubstr("\"photo\":\"AP8=\""));
  // 8000 updates of one key in one commit.
  Sql("do $$ begin for i in 1..8000 loop update account set owner = i::text where id = 1; "
      "end loop; end $$");
  const std::string last = "\"__seq\":" + Number("7999") +
                           ",\"__table\":\"public.account\",\"id\":" + Number("1") +
                           ",\"owner\":\"8000\"";
  ASSERT_TRUE(WaitUntil([&] { return Count(consumer->Stdout(), last) == 1; }, seconds(60),
                        [&] { return consumer->Diagnostics(); }));
  EXPECT_EQ(Count(consumer->Stdout(), "\"__op\":\"update\""), 8000u);
  // Behind the cursor of what it has finished, nothing comes again.
  Sql("insert into account values (9007199254740993, 'Bob')");
  const std::string bob = "\"id\":" + Number("9007199254740993");
  ASSERT_TRUE(WaitUntil([&] { return Count(consumer->Stdout(), bob) == 1 && HasFinished(); },
                        seconds(60), [&] { return consumer->Diagnostics(); }));
  consumer->Kill9();
  tidemark_->Kill9();
  Sql("delete from account where id = 1");
  const absl::Status started = tidemark_->Start();
  ASSERT_TRUE(started.ok()) << started;
  auto again = Consume("again");
  ASSERT_TRUE(again->WaitForLine("\"__op\":\"delete\"", seconds(60)).ok()) << again->Diagnostics();
  EXPECT_EQ(Count(again->Stdout(), "\n"), 1u) << again->Stdout();
}

TEST_P(ConsumersTest, PutsAValueInPartsTogetherAtDefaultChannelSettings) {
  Prepare();
  auto consumer = Consume("first");
  ASSERT_TRUE(consumer->WaitForLine("\"owner\":\"Ann\"", seconds(60)).ok())
      << consumer->Diagnostics();
  Sql("insert into account values (2, repeat('x', " + std::to_string(kLargeBytes) + "))");
  const auto output = tidemark_->scratch_dir() / "first.stdout";
  ASSERT_TRUE(WaitUntil([&] { return std::filesystem::file_size(output) > kLargeBytes; },
                        minutes(4), [&] { return consumer->Stderr(); }));
  ASSERT_TRUE(
      WaitUntil([&] { return HasFinished(); }, seconds(60), [&] { return consumer->Stderr(); }));
  std::string value(kLargeBytes, 'x');
  value.push_back('"');
  EXPECT_EQ(Count(consumer->Stdout(), value), 1u);
}

INSTANTIATE_TEST_SUITE_P(Languages, ConsumersTest, ::testing::Values("python", "node"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tidemark::testing
