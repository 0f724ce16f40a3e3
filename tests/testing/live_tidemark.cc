#include "tests/testing/live_tidemark.h"

#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <utility>

#include "tests/testing/built_paths.h"
#include "tests/testing/free_port.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {

LiveTidemark::LiveTidemark(const LivePostgres& postgres, LiveTidemarkOptions options)
    : environment_(std::move(options.environment)), port_(FreePort()) {
  std::ofstream config(config_file());
  config << fmt::format("listen: 127.0.0.1:{}\nstore:\n  path: {}\n", port_, store_dir().string());
  for (const std::string& line : options.top_lines) config << line << "\n";
  config << fmt::format(
      "feeds:\n  - name: main\n    postgres:\n      host: 127.0.0.1\n      port: {}\n"
      "      database: {}\n      user: {}\n",
      postgres.port(), options.database, options.user);
  for (const std::string& line : options.postgres_lines) config << "      " << line << "\n";
  for (const std::string& line : options.feed_lines) config << "    " << line << "\n";
  for (const std::string& line : options.more_feeds) config << "  " << line << "\n";
}

std::string LiveTidemark::address() const { return fmt::format("127.0.0.1:{}", port_); }

std::string LiveTidemark::Diagnostics() const {
  return process_ == nullptr ? "tidemarkd was not started" : process_->Diagnostics();
}

ProcessOptions LiveTidemark::Daemon(const std::string& name,
                                    const std::vector<std::string>& arguments) const {
  ProcessOptions options;
  options.argv = {(BuildDir() / "server/tidemarkd").string(), "--config", config_file().string()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = environment_;
  options.output_dir = scratch_.path();
  options.name = name;
  return options;
}

absl::Status LiveTidemark::Launch(const std::vector<std::string>& arguments) {
  auto process = Process::Start(Daemon("tidemarkd", arguments));
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  return absl::OkStatus();
}

absl::Status LiveTidemark::Start(std::chrono::milliseconds deadline) {
  if (absl::Status launched = Launch(); !launched.ok()) return launched;
  return WaitUntilStreaming(deadline);
}

absl::Status LiveTidemark::WaitUntilStreaming(std::chrono::milliseconds deadline) {
  return WaitForStatus("SOURCE_STATE_STREAMING", deadline);
}

absl::Status LiveTidemark::WaitForStatus(const std::string& text,
                                         std::chrono::milliseconds deadline) {
  std::string last;
  const auto found = WaitUntil(
      [&] {
        if (!process_->IsRunning()) return true;
        const auto status = Run({"status", "main", "--json"});
        last = status.ok() ? status->out + status->err : status.status().ToString();
        return last.find(text) != std::string::npos;
      },
      deadline);
  if (found && process_->IsRunning()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("the status does not say {}: {}\n{}", text, last, Diagnostics()));
}

absl::StatusOr<int> LiveTidemark::Stop(std::chrono::milliseconds deadline) {
  process_->Signal(SIGTERM);
  return process_->WaitForExit(deadline);
}

void LiveTidemark::Kill9() { process_->Kill9(); }

absl::StatusOr<std::unique_ptr<Process>> LiveTidemark::Launch(
    const std::string& name, const std::vector<std::string>& arguments) const {
  ProcessOptions options;
  options.argv = {(BuildDir() / "client/tidemark").string()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = {{"TIDEMARK_SERVER", address()}};
  options.output_dir = scratch_.path();
  options.name = name;
  return Process::Start(std::move(options));
}

absl::StatusOr<CommandResult> LiveTidemark::Run(const std::vector<std::string>& arguments,
                                                std::chrono::milliseconds deadline) const {
  auto process = Launch(fmt::format("command{}", ++commands_), arguments);
  if (!process.ok()) return process.status();
  return Finish(**process, deadline);
}

absl::StatusOr<CommandResult> LiveTidemark::Check() const {
  auto process = Process::Start(Daemon("check", {"--check"}));
  if (!process.ok()) return process.status();
  return Finish(**process, std::chrono::seconds(60));
}

absl::StatusOr<CommandResult> LiveTidemark::Finish(Process& process,
                                                   std::chrono::milliseconds deadline) {
  const auto exit_code = process.WaitForExit(deadline * kDeadlineFactor);
  if (!exit_code.ok()) return exit_code.status();
  return CommandResult{*exit_code, process.Stdout(), process.Stderr()};
}

absl::Status LiveTidemark::VerifyStore() const {
  ProcessOptions options;
  options.argv = {(BuildDir() / "store/logdump").string(), "verify", store_dir().string()};
  options.output_dir = scratch_.path();
  options.name = "verify";
  return RunCommand(std::move(options), std::chrono::seconds(60)).status();
}

}  // namespace tidemark::testing
