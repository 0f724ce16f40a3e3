#include "tests/testing/live_tidemark.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <optional>
#include <utility>

#include "proto/position.h"
#include "tests/testing/built_paths.h"
#include "tests/testing/free_port.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/pg_session.h"
#include "tests/testing/source_witness.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::testing {
namespace {

constexpr std::chrono::seconds kStatusDeadline{5};

// What the source holds for confirmed; nothing where it, or its slot, is not there.
std::optional<uint64_t> Confirmed(const std::string& conninfo) {
  auto session = PgSession::Connect(conninfo + " connect_timeout=2");
  if (!session.ok()) return std::nullopt;
  const auto found = (*session)->Query(
      "select confirmed_flush_lsn from pg_replication_slots where slot_name = 'tidemark_main' "
      "and confirmed_flush_lsn is not null");
  if (!found.ok() || found->rows.empty()) return std::nullopt;
  const auto lsn = ParseLsn(found->Value());
  return lsn.ok() ? std::optional(*lsn) : std::nullopt;
}

// The LSN up to which the store of a server that is gone holds everything; nothing before there is
// an initial snapshot: the source says where its slot began.
absl::StatusOr<std::optional<uint64_t>> StoredCheckpoint(const std::filesystem::path& store,
                                                         const std::filesystem::path& output_dir) {
  ProcessOptions options;
  options.argv = {
      (BuildDir() / "store/logdump").string(), "feeds", store.string(), "--feed", "main", "--json"};
  options.output_dir = output_dir;
  options.name = "checkpoint";
  const auto printed = RunCommand(std::move(options), std::chrono::seconds(60));
  if (!printed.ok()) return printed.status();
  const std::string name = "\"checkpoint\":\"";
  const size_t at = printed->find(name);
  if (at == std::string::npos) return absl::NotFoundError("no checkpoint: " + *printed);
  if (printed->find("\"SNAPSHOT_PHASE_WHOLE\"") == std::string::npos) return std::nullopt;
  const auto position = Position::FromText(printed->substr(at + name.size(), Position::kTextBytes));
  if (!position.ok()) return position.status();
  return position->engine_low();
}

}  // namespace

LiveTidemark::LiveTidemark(const LivePostgres& postgres, LiveTidemarkOptions options)
    : environment_(options.environment),
      port_(FreePort()),
      postgres_port_(postgres.port()),
      conninfo_(postgres.conninfo(options.database)) {
  WriteConfig(options);
}

void LiveTidemark::WriteConfig(const LiveTidemarkOptions& options) const {
  // Which tables are captured, and from when on, the test knows better.
  CallWitness(address(), "main", nullptr);
  std::ofstream config(config_file());
  config << fmt::format("listen: 127.0.0.1:{}\nstore:\n  path: {}\n", port_, store_dir().string());
  for (const std::string& line : options.top_lines) config << line << "\n";
  config << fmt::format(
      "feeds:\n  - name: main\n    postgres:\n      host: 127.0.0.1\n      port: {}\n"
      "      database: {}\n      user: {}\n",
      postgres_port_, options.database, options.user);
  for (const std::string& line : options.postgres_lines) config << "      " << line << "\n";
  for (const std::string& line : options.feed_lines) config << "    " << line << "\n";
  for (const std::string& line : options.more_feeds) config << "  " << line << "\n";
}

LiveTidemark::~LiveTidemark() {
  CallWitness(address(), "main", nullptr);
  if (process_ != nullptr && process_->IsRunning() && !::testing::Test::HasFailure()) Kill9();
}

std::string LiveTidemark::address() const { return fmt::format("127.0.0.1:{}", port_); }

std::string LiveTidemark::Diagnostics() const {
  return process_ == nullptr ? "tidemarkd was not started" : process_->Diagnostics();
}

void LiveTidemark::CallWitnesses() {
  witnessed_ = true;
  auto witness = CallSourceWitness(conninfo_);
  if (witness.ok()) return CallWitness(address(), "main", *std::move(witness));
  fmt::print("no witness: {}\n", witness.status().ToString());
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
  if (!witnessed_) CallWitnesses();
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

// Asked again and again while a server starts, so without a process of its own.
std::string LiveTidemark::StatusText(const std::string& feed) const {
  grpc::ChannelArguments arguments;
  // A channel that is kept would wait between two tries to connect.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::FeedAdmin::NewStub(
      grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kStatusDeadline);
  v1::GetStatusRequest request;
  request.set_feed(feed);
  v1::GetStatusResponse response;
  const grpc::Status answered = stub->GetStatus(&context, request, &response);
  if (!answered.ok()) return answered.error_message();
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(response, &json, options);
  return printed.ok() ? json : printed.ToString();
}

absl::Status LiveTidemark::WaitForStatus(const std::string& text,
                                         std::chrono::milliseconds deadline) {
  std::string last;
  const auto found = WaitUntil(
      [&] {
        if (!process_->IsRunning()) return true;
        last = StatusText();
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

void LiveTidemark::Kill9() {
  const std::optional<uint64_t> confirmed = Confirmed(conninfo_);
  process_->Kill9();
  if (!confirmed) return;
  const auto stored = StoredCheckpoint(store_dir(), scratch_.path());
  ASSERT_TRUE(stored.ok()) << stored.status();
  if (!*stored) return;
  const absl::Status kept = CheckDurable({{*confirmed, **stored}});
  EXPECT_TRUE(kept.ok()) << kept.message();
}

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
