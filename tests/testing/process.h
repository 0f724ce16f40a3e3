// A child process of a test: its output goes to files that can be waited on, and it never outlives
// the test program.
//
// Thread rule: one Process is used by one thread at a time. Every call that waits has a deadline
// and says in its error what the child had printed. A watchdog (a shell that sees a pipe close)
// kills the child and its children when the test program dies, even by SIGKILL.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidemark::testing {

struct ProcessOptions {
  std::vector<std::string> argv;  // argv[0] is searched in PATH when it holds no slash
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::filesystem::path
      output_dir;  // gets <name>.stdout and <name>.stderr, appended to over restarts
  std::string name = "child";
  std::filesystem::path working_dir;  // empty: inherited
  std::string user;                   // empty: unchanged; else only root can ask for it
};

class Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(ProcessOptions options);
  ~Process();  // SIGKILL to the child and its children, if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  bool IsRunning();
  void Signal(int signal);
  // SIGKILL to the child and all its descendants, then waits until none is left.
  void Kill9();

  // Exit code, or 128 + signal as a shell would say. DEADLINE_EXCEEDED with both outputs if it
  // still runs.
  absl::StatusOr<int> WaitForExit(std::chrono::milliseconds deadline);
  // First line of either output since this start that matches the ECMAScript regular expression.
  // Fails at once when the child has exited without printing it.
  absl::StatusOr<std::string> WaitForLine(const std::string& regex,
                                          std::chrono::milliseconds deadline);

  std::string Stdout() const;  // since this start
  std::string Stderr() const;
  // Last part of both outputs, for failure messages.
  std::string Diagnostics() const;

 private:
  Process() = default;
  void Reap(int wait_status);
  void DismissWatchdog();

  std::string name_;
  std::filesystem::path stdout_path_;
  std::filesystem::path stderr_path_;
  uintmax_t stdout_start_ = 0;  // size of the file when this child started
  uintmax_t stderr_start_ = 0;
  pid_t pid_ = -1;
  bool exited_ = false;
  int exit_code_ = 0;
  pid_t watchdog_pid_ = -1;
  int watchdog_pipe_ = -1;
};

// Living descendants of a process, parents before children.
std::vector<pid_t> Descendants(pid_t pid);

// False for a zombie, too: an orphan stays one for as long as the machine's init likes.
bool IsAlive(pid_t pid);

// Runs to its end and returns both outputs joined; a non-zero exit is an error that holds them.
absl::StatusOr<std::string> RunCommand(ProcessOptions options, std::chrono::milliseconds deadline);

}  // namespace tidemark::testing
