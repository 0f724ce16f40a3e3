// The command line against a real server on a real database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/client/readme_command.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Value of a member whose value is a string without escapes, or a number.
std::string Member(const std::string& line, const std::string& name) {
  const size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) return "";
  std::string rest = line.substr(at + name.size() + 3);
  if (rest[0] == '"') return rest.substr(1, rest.find('"', 1) - 1);
  return rest.substr(0, rest.find_first_of(",}"));
}

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql("create table account (id bigint primary key, owner text, balance numeric(10,2));"
        "insert into account values (1, 'Ann', 10.50), (2, null, 0)");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  CommandResult Run(const std::vector<std::string>& arguments) {
    const auto result = tidemark_->Run(arguments);
    EXPECT_TRUE(result.ok()) << result.status() << tidemark_->Diagnostics();
    return result.ok() ? *result : CommandResult{};
  }
  std::unique_ptr<Process> Launch(const std::string& name,
                                  const std::vector<std::string>& arguments) {
    auto process = tidemark_->Launch(name, arguments);
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? *std::move(process) : nullptr;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

TEST_F(CommandTest, TailPrintsTheSnapshotThenEveryChangeFlat) {
  auto tail = Launch("tail", {"tail", "main", "--from", "snapshot", "--format", "jsonl",
                              "--with-cursor", "--max-transactions", "3"});
  ASSERT_TRUE(tail->WaitForLine("\"id\":2", seconds(30)).ok()) << tail->Diagnostics();
  Sql("insert into account values (9007199254740993, 'Zo\xC3\xAB \"x\"', 1.10)");
  Sql("begin; update account set balance = 11 where id = 1; update account set id = 3 where id = 2;"
      "commit");
  Sql("truncate account");
  const auto exit_code = tail->WaitForExit(seconds(30));
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << tail->Diagnostics();
  const auto lines = LinesOf(tail->Stdout());
  ASSERT_EQ(lines.size(), 7u) << tail->Stdout();
  EXPECT_THAT(lines[0], StartsWith("{\"__op\":\"read\",\"__pos\":\""));
  EXPECT_THAT(lines[0], HasSubstr("\"__table\":\"public.account\",\"id\":1,\"owner\":\"Ann\","
                                  "\"balance\":\"10.50\"}"));
  EXPECT_THAT(lines[1], HasSubstr("\"id\":2,\"owner\":null,\"balance\":\"0.00\"}"));
  EXPECT_THAT(lines[2], HasSubstr("\"id\":9007199254740993,\"owner\":\"Zo\xC3\xAB \\\"x\\\"\","
                                  "\"balance\":\"1.10\",\"__cursor\":\""));
  EXPECT_EQ(Member(lines[3], "__op"), "update");
  EXPECT_EQ(Member(lines[4], "__op"), "delete");
  EXPECT_EQ(Member(lines[5], "__op"), "insert");
  EXPECT_EQ(Member(lines[6], "__op"), "truncate");
  // One commit, one position; its changes are numbered; only its last line has the cursor.
  for (int i : {3, 4, 5}) {
    EXPECT_EQ(Member(lines[i], "__pos"), Member(lines[3], "__pos"));
    EXPECT_EQ(Member(lines[i], "__seq"), std::to_string(i - 3));
    EXPECT_EQ(Member(lines[i], "__cursor").empty(), i != 5);
  }
  EXPECT_THAT(lines[4], HasSubstr("\"__key_change\":true,\"id\":2"));
  EXPECT_LT(Member(lines[2], "__pos"), Member(lines[3], "__pos"));
}

// proves R27: a soft cap ends at a commit, and a transaction beyond it goes through.
TEST_F(CommandTest, RunsWithACapOfChangesComeForward) {
  const auto cursor_file = tidemark_->scratch_dir() / "capped.cursor";
  const auto run = [&] {
    const CommandResult result =
        Run({"tail", "main", "--from", "earliest", "--format", "jsonl", "--cursor-file",
             cursor_file.string(), "--max-changes", "10", "--until-idle"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return LinesOf(result.out);
  };
  for (int id = 101; id <= 106; ++id) {
    Sql(fmt::format("insert into account select {} * 10 + i from generate_series(0, 3) i", id));
  }
  Sql("insert into account select 2000 + i from generate_series(0, 99) i");
  Sql("insert into account values (9001)");
  // All of it is captured.
  const CommandResult all = Run({"tail", "main", "--from", "earliest", "--until", "now"});
  ASSERT_EQ(all.exit_code, 0) << all.err;
  std::vector<size_t> counts;
  std::set<std::string> ids;
  for (size_t count = 1; count > 0;) {
    const auto lines = run();
    for (const std::string& line : lines) {
      EXPECT_TRUE(ids.insert(Member(line, "id")).second) << "printed twice: " << line;
    }
    count = lines.size();
    counts.push_back(count);
    ASSERT_LT(counts.size(), 20u);
  }
  EXPECT_THAT(counts, ::testing::ElementsAre(12, 12, 100, 1, 0));
  EXPECT_EQ(ids.size(), 125u);
}

TEST_F(CommandTest, TailGoesOnFromItsCursorFileAcrossKills) {
  const auto cursor_file = tidemark_->scratch_dir() / "tail.cursor";
  const std::vector<std::string> arguments = {
      "tail",     "main",  "--from",        "latest",
      "--format", "jsonl", "--cursor-file", cursor_file.string()};
  auto tail = Launch("tail", arguments);
  ASSERT_TRUE(WaitUntil([&] { return !FileText(cursor_file).empty(); }, seconds(30),
                        [&] { return tail->Diagnostics(); }));
  Sql("insert into account values (101)");
  ASSERT_TRUE(tail->WaitForLine("\"id\":101", seconds(30)).ok()) << tail->Diagnostics();
  // The server goes, and comes back with more.
  tidemark_->Kill9();
  Sql("insert into account values (102)");
  absl::Status started = tidemark_->Start();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_TRUE(tail->WaitForLine("\"id\":102", seconds(60)).ok()) << tail->Diagnostics();
  // The subscriber ends in order, and comes back.
  tail->Signal(SIGTERM);
  const auto exit_code = tail->WaitForExit(seconds(30));
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << tail->Diagnostics();
  Sql("insert into account values (103)");
  auto again = Launch("tail2", arguments);
  ASSERT_TRUE(again->WaitForLine("\"id\":103", seconds(30)).ok()) << again->Diagnostics();
  std::string ids;
  for (const std::string& line : LinesOf(tail->Stdout() + again->Stdout())) {
    ids += Member(line, "id") + " ";
  }
  EXPECT_EQ(ids, "101 102 103 ");
}

// Who ends a program for another signals it and its process group.
TEST_F(CommandTest, SignalsThatComeTogetherAreOneRequestToEndInOrder) {
  auto tail = Launch("tail", {"tail", "main", "--from", "snapshot", "--tables", "public.account",
                              "--format", "jsonl"});
  ASSERT_TRUE(tail->WaitForLine("Ann", seconds(30)).ok()) << tail->Diagnostics();
  tail->Signal(SIGINT);
  tail->Signal(SIGTERM);
  EXPECT_EQ(tail->WaitForExit(seconds(30)).value_or(-1), 0) << tail->Diagnostics();
  tidemark_->process().Signal(SIGINT);
  tidemark_->process().Signal(SIGTERM);
  EXPECT_EQ(tidemark_->process().WaitForExit(seconds(30)).value_or(-1), 0)
      << tidemark_->Diagnostics();
}

TEST_F(CommandTest, ReadmeCommandFillsAFileThatGrows) {
  ProcessOptions options;
  options.argv = {
      "bash", "-euc",
      "PATH=" + (BuildDir() / "client").string() + ":$PATH; exec " + ReadmeCommand("tail")};
  options.environment = {{"TIDEMARK_SERVER", tidemark_->address()}};
  options.output_dir = options.working_dir = tidemark_->scratch_dir();
  options.name = "readme";
  auto tail = Process::Start(options);
  ASSERT_TRUE(tail.ok()) << tail.status();
  const auto output = tidemark_->scratch_dir() / "changes.jsonl";
  Sql("insert into account values (101)");
  EXPECT_TRUE(WaitUntil([&] { return LinesOf(FileText(output)).size() == 3; }, seconds(30),
                        [&] { return (*tail)->Diagnostics() + FileText(output); }));
}

TEST_F(CommandTest, ReadmeCommandExports) {
  Sql("insert into account values (101)");
  ProcessOptions options;
  options.argv = {
      "bash", "-euc",
      "PATH=" + (BuildDir() / "client").string() + ":$PATH; " + ReadmeCommand("export")};
  options.environment = {{"TIDEMARK_SERVER", tidemark_->address()}};
  options.output_dir = options.working_dir = tidemark_->scratch_dir();
  options.name = "readme";
  const auto done = RunCommand(options, seconds(60));
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(LinesOf(FileText(tidemark_->scratch_dir() / "main.jsonl")).size(), 1u);
  EXPECT_THAT(FileText(tidemark_->scratch_dir() / "main.jsonl.manifest.json"),
              HasSubstr("\"changes\": \"1\""));
}

TEST_F(CommandTest, TailEndsInOrderWhenItsReaderIsGone) {
  const auto cursor_file = tidemark_->scratch_dir() / "tail.cursor";
  for (int i = 0; i < 3; ++i) Sql("insert into account values (" + std::to_string(101 + i) + ")");
  ProcessOptions options;
  options.argv = {"bash",
                  "-c",
                  "\"$@\" | head -n 1; echo \"${PIPESTATUS[0]}\"",
                  "bash",
                  (BuildDir() / "client/tidemark").string(),
                  "tail",
                  "main",
                  "--from",
                  "earliest",
                  "--cursor-file",
                  cursor_file.string(),
                  "--server",
                  tidemark_->address()};
  options.output_dir = tidemark_->scratch_dir();
  options.name = "pipe";
  auto pipe = Process::Start(options);
  ASSERT_TRUE(pipe.ok()) << pipe.status();
  const auto exit_code = (*pipe)->WaitForExit(seconds(30));
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  const auto lines = LinesOf((*pipe)->Stdout());
  ASSERT_EQ(lines.size(), 2u) << (*pipe)->Diagnostics();
  EXPECT_EQ(lines[1], "0");
  EXPECT_EQ((*pipe)->Stderr(), "");
}

TEST_F(CommandTest, TailFiltersTablesAndOpsAndEndsWhenIdle) {
  Sql("create table other (id int primary key)");
  Sql("insert into account values (101, 'a', 1); insert into other values (1)");
  Sql("update account set owner = 'b' where id = 101");
  const CommandResult tail = Run({"tail", "main", "--from", "earliest", "--until-idle", "--tables",
                                  "public.acc*", "--ops", "update,delete"});
  EXPECT_EQ(tail.exit_code, 0) << tail.err;
  ASSERT_EQ(LinesOf(tail.out).size(), 1u) << tail.out;
  EXPECT_THAT(tail.out, HasSubstr(" update public.account  id=101 owner='b' balance=1.00"));
}

TEST_F(CommandTest, CursorsAreResolvedInspectedAndUsed) {
  Sql("insert into account values (101)");
  const CommandResult resolved = Run({"cursor", "resolve", "main", "earliest"});
  ASSERT_EQ(resolved.exit_code, 0) << resolved.err;
  const std::string cursor = LinesOf(resolved.out).at(0);
  const CommandResult inspected = Run({"cursor", "inspect", "main", cursor});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("status       valid"));
  const CommandResult tail =
      Run({"tail", "main", "--from", cursor, "--format", "jsonl", "--max-transactions", "1"});
  EXPECT_EQ(Member(tail.out, "id"), "101") << tail.err;
}

class HelpTest : public CommandTest {
 protected:
  // The help of a command names this form of a point, and the command takes it.
  void ExpectTaken(const std::string& command, const std::string& named,
                   const std::vector<std::string>& arguments) {
    EXPECT_THAT(Run({command, "--help"}).out, HasSubstr(named));
    std::vector<std::string> line = {command};
    line.insert(line.end(), arguments.begin(), arguments.end());
    const CommandResult result = Run(line);
    EXPECT_EQ(result.exit_code, 0) << ::testing::PrintToString(line) << result.err;
  }
  std::string Cursor(const std::string& point) {
    const CommandResult resolved = Run({"cursor", "resolve", "main", point});
    EXPECT_EQ(resolved.exit_code, 0) << resolved.err;
    return resolved.exit_code == 0 ? LinesOf(resolved.out).at(0) : "";
  }
  static std::string TimeNow() {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  }
  std::string FlushedNow() {
    return postgres_->QueryValue("select pg_current_wal_flush_lsn()").value_or("?");
  }
};

TEST_F(HelpTest, EveryFormThatAHelpOffersIsTaken) {
  Sql("insert into account values (101)");
  const std::vector<std::pair<std::string, std::string>> starts = {
      {"snapshot (current rows, then the log)", "snapshot"},
      {"earliest", "earliest"},
      {"latest", "latest"},
      {"a cursor", Cursor("earliest")}};
  for (const auto& [named, start] : starts) {
    ExpectTaken("tail", named, {"main", "--from", start, "--until", "now"});
    ExpectTaken("export", named,
                {"main", "--from", start, "--out",
                 (tidemark_->scratch_dir() / ("from_" + start.substr(0, 20))).string()});
  }
  const std::vector<std::pair<std::string, std::string>> bounds = {
      {"now (what is durable at the source", "now"},
      {"a cursor", Cursor("latest")},
      {"a time as 2026-03-01T12:00:00Z", TimeNow()},
      {"a position in the source's own form (0/16B3748", FlushedNow()}};
  int file = 0;
  for (const auto& [named, bound] : bounds) {
    ExpectTaken("tail", named, {"main", "--from", "earliest", "--until", bound});
    ExpectTaken("export", named,
                {"main", "--until", bound, "--out",
                 (tidemark_->scratch_dir() / fmt::format("until_{}", file++)).string()});
  }
  ExpectTaken("stop", "now", {"main", "--at", "now"});
  ExpectTaken("stop", "never", {"main", "--at", "never"});
  ExpectTaken("stop", "a time as 2026-03-01T12:00:00Z", {"main", "--at", TimeNow()});
  ExpectTaken("stop", "never", {"main", "--at", "never"});
  ExpectTaken("stop", "0/16B3748", {"main", "--at", FlushedNow()});
}

TEST_F(HelpTest, WhatServersDoNotTakeAsAStartIsNotOfferedAndSaysSo) {
  for (const std::string& start : {TimeNow(), FlushedNow()}) {
    const CommandResult tail = Run({"tail", "main", "--from", start, "--until", "now"});
    EXPECT_EQ(tail.exit_code, 1);
    EXPECT_THAT(tail.err, HasSubstr("FEATURE_UNSUPPORTED"));
    const CommandResult resolved = Run({"cursor", "resolve", "main", start});
    EXPECT_EQ(resolved.exit_code, 1);
    EXPECT_THAT(resolved.err, HasSubstr("FEATURE_UNSUPPORTED"));
  }
  EXPECT_THAT(Run({"cursor", "resolve", "--help"}).out, HasSubstr("earliest or latest"));
  // Of another engine, but a position it is.
  const CommandResult other = Run({"tail", "main", "--from", "earliest", "--until", "poll 17"});
  EXPECT_THAT(other.err, HasSubstr("REQUEST_INVALID"));
}

TEST_F(CommandTest, StatusDescribeAndStreamsShowTheFeed) {
  const CommandResult status = Run({"status"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("streaming"));
  EXPECT_THAT(status.out, HasSubstr("slot tidemark_main"));
  EXPECT_THAT(Run({"status", "main", "--json"}).out, HasSubstr("SOURCE_STATE_STREAMING"));
  const CommandResult feed = Run({"describe", "main"});
  EXPECT_EQ(feed.exit_code, 0) << feed.err;
  EXPECT_THAT(feed.out, HasSubstr("log_exact"));
  EXPECT_THAT(feed.out, HasSubstr("public.account"));
  EXPECT_THAT(feed.out, HasSubstr("numeric(10,2)"));
  auto tail = Launch("tail", {"tail", "main", "--label", "a watcher"});
  ASSERT_TRUE(tail->WaitForLine("id=2", seconds(30)).ok()) << tail->Diagnostics();
  const CommandResult streams = Run({"streams"});
  EXPECT_EQ(streams.exit_code, 0) << streams.err;
  EXPECT_THAT(streams.out, HasSubstr("a watcher"));
}

TEST_F(CommandTest, ErrorsSayReasonWhereAndNextStepAndExitByKind) {
  const CommandResult unknown = Run({"tail", "absent"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, StartsWith("tidemark: FEED_UNKNOWN: "));
  EXPECT_THAT(unknown.err, HasSubstr("where: " + tidemark_->address() + ", feed absent"));
  EXPECT_THAT(unknown.err, HasSubstr("next: "));
  EXPECT_EQ(Run({"tail", "main", "--from", "notacursor"}).exit_code, 4);
  EXPECT_EQ(Run({"status", "--server", "127.0.0.1:1"}).exit_code, 3);
  EXPECT_EQ(Run({"tail", "main", "--server", "127.0.0.1:1", "--no-retry"}).exit_code, 3);
  EXPECT_EQ(Run({"tail", "main", "--format", "xml"}).exit_code, 2);
  EXPECT_EQ(Run({}).exit_code, 2);
  const auto damaged = tidemark_->scratch_dir() / "damaged.cursor";
  std::ofstream(damaged) << "";
  const CommandResult refused = Run({"tail", "main", "--cursor-file", damaged.string()});
  EXPECT_EQ(refused.exit_code, 5);
  EXPECT_THAT(refused.err, StartsWith("tidemark: CURSOR_FILE_DAMAGED: "));
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("Exit codes:"));
}

}  // namespace
}  // namespace tidemark::testing
