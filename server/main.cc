// tidemarkd: reads the command line, starts the server, does what signals say. Exit codes are in
// server/README.md.

#include <pthread.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"
#include "server/config.h"
#include "server/config_reloader.h"
#include "server/crash_at.h"
#include "server/server.h"
#include "server/source_check.h"

// Read by jemalloc when the process starts. What is as large as a part of a large value goes back
// to the system when it is freed: kept for reuse, as by default, it adds half of the memory that 1
// GB of rows of 1 MB takes. A thread's small pieces stay cached, so small rows pay nothing.
extern "C" {
const char* malloc_conf = "oversize_threshold:262144,muzzy_decay_ms:0,narenas:4";
}

namespace tidemark {
namespace {

enum ExitCode {
  kOk = 0,
  kUnexpected = 1,
  kConfig = 2,
  kStore = 3,
  kListen = 4,
  kCheckFoundErrors = 5,
  kSourceStuck = 6,
};

struct CommandLine {
  std::string config_file;
  std::string crash_at;
  bool check = false;
};

int ExitCodeOf(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  if (reason == reason::kConfigInvalid) return kConfig;
  if (reason == reason::kListenFailed) return kListen;
  return reason.rfind("STORE_", 0) == 0 ? kStore : kUnexpected;
}

int Fail(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  std::fprintf(stderr, "tidemarkd: %s%s%s\n", reason.c_str(), reason.empty() ? "" : ": ",
               std::string(error.message()).c_str());
  return ExitCodeOf(error);
}

sigset_t SignalSet(std::initializer_list<int> members) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : members) sigaddset(&signals, signal);
  return signals;
}

// Threads inherit it: called before the first one is made, only the main thread takes a signal.
void Block(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, nullptr); }

// Who ends a program for another (timeout, npm) signals it and its process group: signals within
// this time are one request.
constexpr std::chrono::seconds kSameRequest{1};

// Until SIGTERM or SIGINT; SIGHUP has the configuration read again. A second request to stop ends
// the process at once.
void WaitForStopSignal(ConfigReloader* reloader) {
  const sigset_t taken = SignalSet({SIGTERM, SIGINT, SIGHUP});
  int received = 0;
  for (sigwait(&taken, &received); received == SIGHUP; sigwait(&taken, &received)) {
    reloader->Request();
  }
  std::thread([signals = SignalSet({SIGTERM, SIGINT})] {
    std::this_thread::sleep_for(kSameRequest);
    const timespec at_once{};
    while (sigtimedwait(&signals, nullptr, &at_once) > 0) continue;
    int again = 0;
    sigwait(&signals, &again);
    std::_Exit(128 + again);
  }).detach();
}

int Serve(const v1::Config& config, const CommandLine& command) {
  ServerOptions options;
  if (!command.crash_at.empty()) {
    auto observer = CrashAt(command.crash_at);
    if (!observer.ok()) {
      Fail(observer.status());
      return kConfig;
    }
    options.observer = *std::move(observer);
  }
  Block(SignalSet({SIGTERM, SIGINT}));
  std::signal(SIGPIPE, SIG_IGN);

  auto server = Server::Start(config, std::move(options));
  if (!server.ok()) return Fail(server.status());
  std::printf("tidemarkd %s serves on %s\n", kServerVersion, (*server)->address().c_str());
  std::fflush(stdout);
  ConfigReloader reloader(command.config_file, **server);
  WaitForStopSignal(&reloader);
  const bool file_read = reloader.Stop();
  // A thread that cannot be joined cannot be left behind either. What is appended is in the store's
  // log.
  if (!(*server)->Stop(FromDuration(config.drain_timeout()))) std::_Exit(kSourceStuck);
  if (!file_read) std::_Exit(kOk);
  return kOk;
}

int Run(const CommandLine& command) {
  // From before the file is read: a change of it during the start is not missed, and the signal,
  // which else would end the process, waits.
  if (!command.check) Block(SignalSet({SIGHUP}));
  const auto config = LoadConfig(command.config_file);
  if (!config.ok()) return Fail(config.status());
  if (command.check) return CheckSources(*config) ? kOk : kCheckFoundErrors;
  return Serve(*config, command);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::CommandLine command;
  CLI::App app(
      "Tidemark's server: tails databases, keeps every change in order, streams it over gRPC.",
      "tidemarkd");
  app.add_option("--config", command.config_file, "Configuration file (YAML)")->required();
  app.add_flag(
      "--check", command.check,
      "Checks the configuration and every source, prints what is missing and what mends it, "
      "changes nothing, and exits");
  app.footer(
      "SIGTERM and SIGINT drain and stop. SIGHUP reads the file again: other tables of a feed, "
      "other retention and another log level take effect at once; the rest takes effect with a "
      "restart, and is named in the event log. A file with errors changes nothing.");
  // For tests of the process: see server/README.md.
  app.add_option("--crash-at", command.crash_at)->group("");
  app.set_version_flag("--version", std::string("tidemarkd ") + tidemark::kServerVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tidemark::kOk : tidemark::kConfig;
  }
  return tidemark::Run(command);
}
