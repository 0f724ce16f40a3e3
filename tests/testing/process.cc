#include "tests/testing/process.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

constexpr size_t kDiagnosticsBytesMax = 4000;

// Reads one byte that never comes: the pipe closes when the test program is gone. Children are
// listed before anything is killed, because the orphans of a killed parent can no longer be found.
constexpr char kWatchdogScript[] = R"(
read _ <&3
found=$1 list=$1
while [ -n "$list" ]; do
  next=
  for stat in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$stat" || continue
    pid=${line%% *}; rest=${line##*) }; rest=${rest#* }; parent=${rest%% *}
    for one in $list; do [ "$parent" = "$one" ] && next="$next $pid"; done
  done
  found="$found $next" list=$next
done
kill -9 $found 2>/dev/null
)";

struct Account {
  uid_t uid;
  gid_t gid;
};

absl::StatusOr<Account> FindAccount(const std::string& user) {
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr) return absl::NotFoundError(fmt::format("no user {} on this machine", user));
  return Account{entry->pw_uid, entry->pw_gid};
}

std::string ReadFrom(const std::filesystem::path& path, uintmax_t start) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(start));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Tail(const std::string& text) {
  if (text.size() <= kDiagnosticsBytesMax) return text;
  return "... " + text.substr(text.size() - kDiagnosticsBytesMax);
}

// Everything the child needs, laid out before vfork: up to exec the child lives in the memory of
// the test program, of which a copy would cost more than most programs that are started. Only
// async-signal-safe calls are allowed, and nothing may be changed there.
struct ExecPlan {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::vector<char*> argv_pointers;
  std::vector<char*> environment_pointers;

  void Point() {
    for (std::string& argument : argv) argv_pointers.push_back(argument.data());
    for (std::string& entry : environment) environment_pointers.push_back(entry.data());
    argv_pointers.push_back(nullptr);
    environment_pointers.push_back(nullptr);
  }
};

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    size_t equals = text.find('=');
    if (equals != std::string::npos) merged[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [key, value] : added) merged[key] = value;
  std::vector<std::string> lines;
  for (const auto& [key, value] : merged) lines.push_back(key + "=" + value);
  return lines;
}

[[noreturn]] void FailInChild(const char* what) {
  const char* reason = strerror(errno);
  (void)!write(STDERR_FILENO, what, strlen(what));
  (void)!write(STDERR_FILENO, ": ", 2);
  (void)!write(STDERR_FILENO, reason, strlen(reason));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(127);
}

[[noreturn]] void RunChild(const ExecPlan& plan, int stdout_fd, int stderr_fd,
                           const char* working_dir, const Account* account) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(stdout_fd, STDOUT_FILENO);
  dup2(stderr_fd, STDERR_FILENO);
  // Not by way of the C library, which would have the threads of the test program change, too.
  if (account != nullptr &&
      (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setgid, account->gid) != 0 ||
       syscall(SYS_setuid, account->uid) != 0)) {
    FailInChild("change of user");
  }
  if (*working_dir != '\0' && chdir(working_dir) != 0) FailInChild(working_dir);
  execvpe(plan.argv_pointers[0], plan.argv_pointers.data(), plan.environment_pointers.data());
  FailInChild(plan.argv_pointers[0]);
}

// Returns the watchdog's process id; `*pipe_fd` gets the end whose closing triggers it.
absl::StatusOr<pid_t> StartWatchdog(pid_t child, int* pipe_fd) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe2");
  std::string script = kWatchdogScript;
  std::string child_text = std::to_string(child);
  const pid_t pid = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    // A group of its own: Ctrl-C at the terminal must end the test program first, and the watchdog
    // last.
    setpgid(0, 0);
    dup2(ends[0], 3);  // Clears close-on-exec, unless it is already number 3.
    fcntl(3, F_SETFD, 0);
    execl("/bin/sh", "sh", "-c", script.c_str(), "watchdog", child_text.c_str(), nullptr);
    _exit(127);
  }
  close(ends[0]);
  if (pid < 0) {
    close(ends[1]);
    return absl::ErrnoToStatus(errno, "fork");
  }
  *pipe_fd = ends[1];
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(ProcessOptions options) {
  ExecPlan plan{options.argv, MergedEnvironment(options.environment), {}, {}};
  plan.Point();
  Account account{};
  if (!options.user.empty()) {
    absl::StatusOr<Account> found = FindAccount(options.user);
    if (!found.ok()) return found.status();
    account = *found;
  }
  std::unique_ptr<Process> process(new Process);
  process->name_ = options.name;
  process->stdout_path_ = options.output_dir / (options.name + ".stdout");
  process->stderr_path_ = options.output_dir / (options.name + ".stderr");
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  int stdout_fd = open(process->stdout_path_.c_str(), kFlags, 0644);
  int stderr_fd = open(process->stderr_path_.c_str(), kFlags, 0644);
  if (stdout_fd < 0 || stderr_fd < 0) {
    return absl::ErrnoToStatus(errno, process->stdout_path_.string());
  }
  process->stdout_start_ = std::filesystem::file_size(process->stdout_path_);
  process->stderr_start_ = std::filesystem::file_size(process->stderr_path_);
  const std::string working_dir = options.working_dir.string();
  const pid_t pid = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    RunChild(plan, stdout_fd, stderr_fd, working_dir.c_str(),
             options.user.empty() ? nullptr : &account);
  }
  close(stdout_fd);
  close(stderr_fd);
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  process->pid_ = pid;
  absl::StatusOr<pid_t> watchdog = StartWatchdog(pid, &process->watchdog_pipe_);
  if (!watchdog.ok()) return watchdog.status();
  process->watchdog_pid_ = *watchdog;
  return process;
}

Process::~Process() {
  if (pid_ > 0 && IsRunning()) Kill9();
  DismissWatchdog();
}

void Process::DismissWatchdog() {
  if (watchdog_pid_ > 0) {
    kill(watchdog_pid_, SIGKILL);
    waitpid(watchdog_pid_, nullptr, 0);
    watchdog_pid_ = -1;
  }
  if (watchdog_pipe_ >= 0) close(watchdog_pipe_);
  watchdog_pipe_ = -1;
}

void Process::Reap(int wait_status) {
  exited_ = true;
  exit_code_ = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
  DismissWatchdog();  // The id may soon belong to another process.
}

bool Process::IsRunning() {
  if (exited_) return false;
  int wait_status = 0;
  if (waitpid(pid_, &wait_status, WNOHANG) == pid_) Reap(wait_status);
  return !exited_;
}

void Process::Signal(int signal) {
  if (IsRunning()) kill(pid_, signal);
}

void Process::Kill9() {
  if (!IsRunning()) return;
  // The parent stops first, so that it starts nothing while its children are being listed.
  kill(pid_, SIGSTOP);
  std::vector<pid_t> family = Descendants(pid_);
  kill(pid_, SIGKILL);
  for (pid_t member : family) kill(member, SIGKILL);
  int wait_status = 0;
  waitpid(pid_, &wait_status, 0);
  Reap(wait_status);
  (void)WaitUntil([&] { return std::none_of(family.begin(), family.end(), IsAlive); },
                  std::chrono::seconds(10));
}

absl::StatusOr<int> Process::WaitForExit(std::chrono::milliseconds deadline) {
  ::testing::AssertionResult done = WaitUntil([this] { return !IsRunning(); }, deadline);
  if (!done)
    return absl::DeadlineExceededError(fmt::format("{} still runs. {}", name_, Diagnostics()));
  return exit_code_;
}

absl::StatusOr<std::string> Process::WaitForLine(const std::string& regex,
                                                 std::chrono::milliseconds deadline) {
  const std::regex wanted(regex, std::regex::ECMAScript | std::regex::optimize);
  std::string found;
  auto search = [&] {
    for (const std::string& text : {Stdout(), Stderr()}) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        if (lines.eof()) break;  // Not a whole line yet.
        if (std::regex_search(line, wanted)) {
          found = line;
          return true;
        }
      }
    }
    return false;
  };
  bool exited = false;
  ::testing::AssertionResult done = WaitUntil(
      [&] {
        exited = !IsRunning();  // Asked before the search: what it printed last must be seen.
        return search() || exited;
      },
      deadline);
  if (!found.empty()) return found;
  std::string what =
      fmt::format("{} never printed a line like '{}'. {}", name_, regex, Diagnostics());
  if (exited)
    return absl::FailedPreconditionError(fmt::format("exit code {}; {}", exit_code_, what));
  return absl::DeadlineExceededError(what);
}

std::string Process::Stdout() const { return ReadFrom(stdout_path_, stdout_start_); }

std::string Process::Stderr() const { return ReadFrom(stderr_path_, stderr_start_); }

std::string Process::Diagnostics() const {
  return fmt::format("[{} stdout]\n{}\n[{} stderr]\n{}\n", name_, Tail(Stdout()), name_,
                     Tail(Stderr()));
}

std::vector<pid_t> Descendants(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string stat = ReadFrom(entry.path() / "stat", 0);
    size_t end_of_name = stat.rfind(')');  // A name may itself hold spaces and parentheses.
    if (end_of_name == std::string::npos) continue;
    std::istringstream fields(stat.substr(end_of_name + 2));
    std::string state;
    pid_t parent = 0;
    fields >> state >> parent;
    children.emplace(parent, static_cast<pid_t>(std::stol(name)));
  }
  std::vector<pid_t> found{pid};
  for (size_t i = 0; i < found.size(); ++i) {
    auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

bool IsAlive(pid_t pid) {
  const std::string stat = ReadFrom(fmt::format("/proc/{}/stat", pid), 0);
  const size_t end_of_name = stat.rfind(')');  // A name may itself hold spaces and parentheses.
  return end_of_name != std::string::npos && stat.substr(end_of_name + 2, 1) != "Z";
}

absl::StatusOr<std::string> RunCommand(ProcessOptions options, std::chrono::milliseconds deadline) {
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(std::move(options));
  if (!process.ok()) return process.status();
  absl::StatusOr<int> code = (*process)->WaitForExit(deadline);
  if (!code.ok()) return code.status();
  if (*code != 0) {
    return absl::InternalError(fmt::format("exit code {}. {}", *code, (*process)->Diagnostics()));
  }
  return (*process)->Stdout() + (*process)->Stderr();
}

}  // namespace tidemark::testing
