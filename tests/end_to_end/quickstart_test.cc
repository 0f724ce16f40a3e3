// The commands that README.md and the runbook show, run as they stand there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <regex>

#include "tests/testing/built_paths.h"
#include "tests/testing/code_blocks.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class QuickstartTest : public ::testing::Test {
 protected:
  ~QuickstartTest() override { Run("stop", "./deploy/quickstart stop", minutes(1)).IgnoreError(); }

  ProcessOptions Shell(const std::string& name, const std::string& command) {
    ProcessOptions options;
    options.argv = {"bash", "-c", command};
    options.name = name;
    options.output_dir = scratch_.path();
    options.working_dir = SourceDir();
    const std::string quickstart = (scratch_ / "quickstart").string();
    options.environment = {{"TIDEMARK_QUICKSTART_DIR", quickstart},
                           {"TIDEMARK_BUILD_DIR", BuildDir().string()},
                           {"PYTHONPATH", (BuildDir() / "client/python").string()},
                           {"PATH", quickstart + "/bin:" + (BuildDir() / "store").string() +
                                        ":/usr/sbin:/usr/bin:/sbin:/bin"}};
    const std::string port = FileText(scratch_ / "quickstart/tidemark.port");
    if (!port.empty())
      options.environment.emplace_back("TIDEMARK_SERVER",
                                       "127.0.0.1:" + port.substr(0, port.find('\n')));
    return options;
  }
  absl::Status Run(const std::string& name, const std::string& command,
                   std::chrono::milliseconds deadline) {
    return RunCommand(Shell(name, command), deadline).status();
  }

  ScratchDir scratch_{"readme"};
  const std::string readme_ = FileText(SourceDir() / "README.md");
  const std::string runbook_ = FileText(SourceDir() / "deploy/RUNBOOK.md");
};

TEST_F(QuickstartTest, EveryCommandOfTheReadmeAndTheRunbookRuns) {
  std::filesystem::permissions(scratch_.path(), std::filesystem::perms(0755));
  const auto shown = RunCommand(Shell("quickstart", "./deploy/quickstart"), minutes(5));
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_NE(shown->find("300 of 300 commits, each once, in order"), std::string::npos) << *shown;

  int commands = 0;
  for (const std::string& page : {readme_, runbook_}) {
    for (std::string command : Commands(page, "tidemark")) {
      // A tail goes on until it is interrupted, and then ends cleanly.
      const std::string in_scratch = "cd " + scratch_.path().string() + " && ";
      if (command.find(" tail ") != std::string::npos) {
        command = in_scratch + "timeout --preserve-status -s INT 3 " + command;
      } else if (command.find(" export ") != std::string::npos) {
        command = in_scratch + command;
      }
      // It would take away what the others are about; what it does is in drop_feed_test.cc.
      if (command.find(" feed drop ") != std::string::npos) continue;
      const absl::Status done = Run("command" + std::to_string(++commands), command, seconds(30));
      if (command.find(" recover ") != std::string::npos) {
        // Nothing broke here; what it does behind a break is in healing_test.cc.
        EXPECT_THAT(done.ToString(), ::testing::HasSubstr("RECOVERY_REFUSED")) << command;
        continue;
      }
      if (command.find(" feed migrate ") != std::string::npos) {
        // A feed of the log; what it does with a polled one is in migration_test.cc.
        EXPECT_THAT(done.ToString(), ::testing::HasSubstr("MIGRATION_REFUSED")) << command;
        continue;
      }
      EXPECT_TRUE(done.ok()) << command << "\n" << done;
    }
  }
  EXPECT_GE(commands, 12);
  for (const char* file : {"shop.jsonl", "orders.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch_ / (std::string(file) + ".manifest.json"))) << file;
  }

  // The consumer of the README, as it stands there.
  ASSERT_EQ(CodeBlocks(readme_, "python").size(), 1u);
  std::ofstream(scratch_ / "consumer.py") << CodeBlocks(readme_, "python")[0];
  const std::string run_consumer =
      "cd " + scratch_.path().string() + " && /usr/bin/python3 -u consumer.py";
  auto consumer = Process::Start(Shell("consumer", run_consumer));
  ASSERT_TRUE(consumer.ok()) << consumer.status();
  EXPECT_TRUE((*consumer)->WaitForLine(" orders$", seconds(30)).ok()) << (*consumer)->Diagnostics();
  (*consumer)->Kill9();

  // The signal, the server's own commands and the offline tool.
  const std::string quickstart = (scratch_ / "quickstart").string();
  for (std::string command : Commands(runbook_, "kill")) {
    const size_t at = command.find("PID");
    ASSERT_NE(at, std::string::npos) << command;
    command.replace(at, 3, "$(cat " + quickstart + "/tidemarkd.pid)");
    EXPECT_TRUE(Run("signal", command, seconds(30)).ok()) << command;
  }
  EXPECT_TRUE(WaitUntil(
      [&] {
        return FileText(quickstart + "/tidemarkd.err")
                   .find("configuration read again applied=\"\"") != std::string::npos;
      },
      seconds(30), [&] { return FileText(quickstart + "/tidemarkd.err"); }));
  std::filesystem::copy_file(quickstart + "/tidemark.yaml", scratch_ / "tidemark.yaml");
  std::vector<std::string> serving;
  for (const std::string& page : {readme_, runbook_}) {
    for (const std::string& shown : Commands(page, "tidemarkd")) {
      const std::string command = "cd " + scratch_.path().string() + " && exec " + shown;
      if (command.find(" --check") == std::string::npos) {
        serving.push_back(command);
        continue;
      }
      const absl::Status checked = Run("check", command, seconds(30));
      EXPECT_TRUE(checked.ok()) << command << "\n" << checked;
    }
  }
  EXPECT_TRUE(Run("kill", "kill -9 $(cat " + quickstart + "/tidemarkd.pid)", seconds(30)).ok());
  ASSERT_EQ(serving.size(), 1u);
  auto server = Process::Start(Shell("server", serving[0]));
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->WaitForLine("serving", seconds(30)).ok()) << (*server)->Diagnostics();
  (*server)->Signal(SIGTERM);
  EXPECT_EQ((*server)->WaitForExit(seconds(30)).value_or(-1), 0) << (*server)->Diagnostics();
  int offline = 0;
  for (std::string command : Commands(runbook_, "logdump")) {
    const size_t at = command.find("PATH");
    ASSERT_NE(at, std::string::npos) << command;
    command.replace(at, 4, quickstart + "/store");
    const absl::Status done = Run("offline" + std::to_string(++offline), command, seconds(30));
    EXPECT_TRUE(done.ok()) << command << "\n" << done;
  }
  EXPECT_EQ(offline, 3);
  EXPECT_TRUE(Run("stop", "./deploy/quickstart stop", minutes(1)).ok());
  // Nothing that it started is left. The brackets keep pgrep from finding the shell around it.
  const std::string programs = "[/]" + quickstart.substr(1) + "/bin/";
  const auto left = RunCommand(Shell("left", "pgrep -af '^" + programs + "' || true"), seconds(30));
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(*left, "");
}

TEST_F(QuickstartTest, OnTheUsersOwnDatabase) {
  std::filesystem::permissions(scratch_.path(), std::filesystem::perms(0755));
  LivePostgresOptions unfit;
  unfit.settings = {{"wal_level", "replica"}};
  const auto postgres = LivePostgres::Create(unfit);
  ASSERT_TRUE(postgres.ok()) << postgres.status();
  const std::string command = "./deploy/quickstart --postgres '" + (*postgres)->conninfo() + "'";
  ASSERT_TRUE((*postgres)->Exec("CREATE TABLE items (id int PRIMARY KEY, name text)").ok());

  // What is missing is said with the SQL that mends it, and nothing is touched.
  const absl::Status refused = Run("unfit", command, minutes(2));
  EXPECT_THAT(refused.ToString(), ::testing::HasSubstr("ALTER SYSTEM SET wal_level = logical"));
  EXPECT_EQ((*postgres)->QueryValue("SELECT count(*) FROM pg_publication").value_or("?"), "0");

  ASSERT_TRUE((*postgres)->Exec("ALTER SYSTEM SET wal_level = 'logical'").ok());
  ASSERT_TRUE((*postgres)->Restart().ok());
  auto tail = Process::Start(Shell("own", command));
  ASSERT_TRUE(tail.ok()) << tail.status();
  ASSERT_TRUE((*tail)->WaitForLine("Tailing your changes", minutes(2)).ok())
      << (*tail)->Diagnostics();
  // It tails from the newest point, so it may not have opened its stream yet: write until it shows.
  absl::StatusOr<std::string> shown;
  for (int id = 1; id <= 30 && !shown.ok(); ++id) {
    ASSERT_TRUE(
        (*postgres)->Exec("INSERT INTO items VALUES (" + std::to_string(id) + ", 'own')").ok());
    shown = (*tail)->WaitForLine("insert.*own", seconds(2));
  }
  EXPECT_TRUE(shown.ok()) << (*tail)->Diagnostics();
  (*tail)->Kill9();
  const auto stopped = RunCommand(Shell("stop", "./deploy/quickstart stop"), minutes(1));
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_THAT(*stopped, ::testing::HasSubstr("pg_drop_replication_slot('tidemark_"));
}

TEST_F(QuickstartTest, DeveloperCommandsOfTheReadme) {
  const auto usage = RunCommand(Shell("usage", ".ci/dev help"), seconds(30));
  ASSERT_TRUE(usage.ok()) << usage.status();
  const std::regex shown("\\.ci/dev ([a-z]+)");
  int verbs = 0;
  for (auto at = std::sregex_iterator(readme_.begin(), readme_.end(), shown);
       at != std::sregex_iterator(); ++at, ++verbs)
    EXPECT_TRUE(std::regex_search(*usage, std::regex("\\b" + at->str(1) + "\\b"))) << at->str();
  EXPECT_GE(verbs, 9);
  EXPECT_TRUE(Run("down", ".ci/dev down", minutes(1)).ok());

  // tests/run is what runs this test; here its set-up and its short lanes, as a person would start
  // it. What deploy/README.md says of the other verbs rests on the lanes that run them.
  ASSERT_THAT(readme_, ::testing::HasSubstr("\n./tests/run\n"));
  const absl::Status lanes = Run("lanes", "./tests/run --only format,proto", minutes(3));
  EXPECT_TRUE(lanes.ok()) << lanes;
  const std::string lane_text = FileText(SourceDir() / "tests/run");
  for (const char* verb : {"build", "fuzz", "tidy", "format", "proto"})
    EXPECT_THAT(lane_text, ::testing::HasSubstr(std::string("\"$dev\" ") + verb));
  EXPECT_THAT(lane_text, ::testing::HasSubstr("asan | tsan) "));
  EXPECT_THAT(lane_text, ::testing::HasSubstr("\"$dev\" \"$1\" --sample"));
}

}  // namespace
}  // namespace tidemark::testing
