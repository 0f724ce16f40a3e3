// tidemarkd as users run it: a process of its own with a configuration file, one feed "main" from a
// PostgreSQL of the test, a free port, a store in a scratch folder. And the command line beside it.
// PostgreSQL is its witness (source_witness.h) from the first start on. A server that is killed,
// by the test or because that is over, must hold what the source has for confirmed: CheckDurable.
//
// Thread rule: one thread at a time, but for address() and the paths, which are constant. The
// process never outlives the test (process.h).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

struct LiveTidemarkOptions {
  std::string database = "postgres";
  std::string user = "postgres";
  // Of the process, beside the test's own.
  std::vector<std::pair<std::string, std::string>> environment;
  // Lines of YAML below the feed's postgres key, e.g. "tables: ['public.a*']".
  std::vector<std::string> postgres_lines;
  // Lines of YAML below the feed, e.g. "stop_at: now".
  std::vector<std::string> feed_lines;
  // Lines of YAML at the top level, e.g. "drain_timeout: 1s".
  std::vector<std::string> top_lines;
  // More feeds: lines of YAML in the list, e.g. "- {name: other, postgres: {...}}".
  std::vector<std::string> more_feeds;
};

struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class LiveTidemark {
 public:
  // Not started yet. `postgres` is lent.
  explicit LiveTidemark(const LivePostgres& postgres, LiveTidemarkOptions options = {});
  ~LiveTidemark();
  LiveTidemark(const LiveTidemark&) = delete;
  LiveTidemark& operator=(const LiveTidemark&) = delete;

  // Writes the file anew, as the constructor does; a server that runs is not told.
  void WriteConfig(const LiveTidemarkOptions& options) const;

  // Starts the process and waits until the feed streams. The store stays from start to start.
  absl::Status Start(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // The same without waiting for anything; `arguments` come behind --config.
  absl::Status Launch(const std::vector<std::string>& arguments = {});
  absl::Status WaitUntilStreaming(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // The status of this feed as JSON, or the error that the server answers with.
  std::string StatusText(const std::string& feed = "main") const;
  // Until StatusText holds this text.
  absl::Status WaitForStatus(const std::string& text,
                             std::chrono::milliseconds deadline = std::chrono::seconds(60));
  // SIGTERM; returns its exit code.
  absl::StatusOr<int> Stop(std::chrono::milliseconds deadline = std::chrono::seconds(30));
  void Kill9();

  std::string address() const;  // 127.0.0.1:PORT
  std::filesystem::path config_file() const { return scratch_ / "tidemark.yaml"; }
  std::filesystem::path store_dir() const { return scratch_ / "store"; }
  std::filesystem::path scratch_dir() const { return scratch_.path(); }
  Process& process() { return *process_; }
  // What the server said, for failure messages.
  std::string Diagnostics() const;

  // `tidemarkd --check` with the same configuration, until it ends.
  absl::StatusOr<CommandResult> Check() const;
  // `tidemark ARGUMENTS`, with this server in TIDEMARK_SERVER, until it ends.
  absl::StatusOr<CommandResult> Run(
      const std::vector<std::string>& arguments,
      std::chrono::milliseconds deadline = std::chrono::seconds(60)) const;
  // The same in the background; its output goes to NAME.stdout and NAME.stderr in the scratch
  // folder.
  absl::StatusOr<std::unique_ptr<Process>> Launch(const std::string& name,
                                                  const std::vector<std::string>& arguments) const;
  // What is left on disk is in order: `logdump verify`, for a server that does not run.
  absl::Status VerifyStore() const;

 private:
  void CallWitnesses();
  ProcessOptions Daemon(const std::string& name, const std::vector<std::string>& arguments) const;
  static absl::StatusOr<CommandResult> Finish(Process& process, std::chrono::milliseconds deadline);

  ScratchDir scratch_{"tidemark"};
  const std::vector<std::pair<std::string, std::string>> environment_;
  const uint16_t port_;
  const uint16_t postgres_port_;
  const std::string conninfo_;  // of the source
  bool witnessed_ = false;
  std::unique_ptr<Process> process_;
  mutable int commands_ = 0;
};

}  // namespace tidemark::testing
