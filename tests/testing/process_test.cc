#include "tests/testing/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "tests/testing/free_port.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class ProcessTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> Shell(const std::string& script) {
    return Process::Start({.argv = {"sh", "-c", script},
                           .environment = {{"TIDEMARK_MARK", "here"}},
                           .output_dir = scratch_.path()})
        .value();
  }

  ScratchDir scratch_;
};

TEST_F(ProcessTest, TellsExitCodeAndOutputs) {
  auto process = Shell("echo out $TIDEMARK_MARK; echo err >&2; exit 3");
  EXPECT_EQ(process->WaitForExit(10s).value(), 3);
  EXPECT_EQ(process->Stdout(), "out here\n");
  EXPECT_EQ(process->Stderr(), "err\n");
}

TEST_F(ProcessTest, OutputOfAnEarlierStartIsNotSeen) {
  ASSERT_TRUE(Shell("echo first")->WaitForExit(10s).ok());
  auto process = Shell("echo second");
  ASSERT_TRUE(process->WaitForExit(10s).ok());
  EXPECT_EQ(process->Stdout(), "second\n");
}

TEST_F(ProcessTest, WaitsForALine) {
  auto process = Shell("echo 'listening on 127.0.0.1:4711' >&2; exec cat /dev/zero >/dev/null");
  EXPECT_THAT(process->WaitForLine("on .*:[0-9]+$", 10s).value(), HasSubstr("4711"));
  EXPECT_TRUE(process->IsRunning());
  process->Kill9();
  EXPECT_EQ(process->WaitForExit(10s).value(), 128 + SIGKILL);
}

TEST_F(ProcessTest, AChildThatExitsEndsTheWaitForALine) {
  auto process = Shell("echo why >&2; exit 4");
  absl::Status status = process->WaitForLine("never", 60s).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("why"));
}

TEST_F(ProcessTest, AProgramThatIsNotThereSaysSo) {
  auto process =
      Process::Start({.argv = {"/no/such/program"}, .output_dir = scratch_.path()}).value();
  EXPECT_EQ(process->WaitForExit(10s).value(), 127);
  EXPECT_THAT(process->Stderr(), HasSubstr("No such file"));
}

TEST_F(ProcessTest, Kill9TakesGrandchildrenAlong) {
  auto process = Shell("setsid cat /dev/zero >/dev/null & echo started; wait");
  ASSERT_TRUE(process->WaitForLine("started", 10s).ok());
  ASSERT_TRUE(WaitUntil([&] { return !Descendants(process->pid()).empty(); }, 10s));
  pid_t grandchild = Descendants(process->pid()).front();
  process->Kill9();
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(grandchild); }, 10s));
}

// The owner is killed outright, so only the watchdog can end what it started, stopped or not.
TEST_F(ProcessTest, ChildrenDieWithTheirOwner) {
  const std::string pid_file = scratch_ / "pid";
  pid_t owner = fork();
  if (owner == 0) {
    auto process = Shell("setsid cat /dev/zero >/dev/null & echo $! > " + pid_file + ".new; mv " +
                         pid_file + ".new " + pid_file + "; wait");
    (void)WaitUntil([&] { return std::filesystem::exists(pid_file); }, 10s);
    process->Signal(SIGSTOP);
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(owner, &wait_status, 0), owner);
  pid_t grandchild = 0;
  std::ifstream(pid_file) >> grandchild;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(grandchild); }, 10s));
}

TEST_F(ProcessTest, RootRunsAChildAsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change the user";
  auto process =
      Process::Start({.argv = {"id", "-un"}, .output_dir = scratch_.path(), .user = "nobody"})
          .value();
  EXPECT_EQ(process->WaitForExit(10s).value(), 0);
  EXPECT_EQ(process->Stdout(), "nobody\n");
}

// proves S41
TEST(WaitUntilTest, FailureHoldsTheDiagnostics) {
  ::testing::AssertionResult result =
      WaitUntil([] { return false; }, 5ms, [] { return "state=CATCHING_UP"; });
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("state=CATCHING_UP"));
}

// proves S41
TEST(FreePortTest, NeverGivesOnePortTwice) { EXPECT_NE(FreePort(), FreePort()); }

TEST(ScratchDirTest, IsRemovedWithItsContent) {
  std::filesystem::path path;
  {
    ScratchDir scratch;
    path = scratch.path();
    std::ofstream(scratch / "file") << "x";
    EXPECT_TRUE(std::filesystem::exists(path / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tidemark::testing
