#include "tests/testing/live_postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/testing/cluster_template.h"
#include "tests/testing/free_port.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

constexpr seconds kCopyDeadline{120};
constexpr seconds kUpgradeDeadline{300};
constexpr seconds kStartDeadline{60};  // Recovery after Kill9 is part of it.
constexpr seconds kStopDeadline{60};
constexpr int kMajorVersionMin = 15;

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* value = getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

absl::StatusOr<std::filesystem::path> FindBinaries() {
  std::string given = EnvironmentOr("TIDEMARK_POSTGRES_BIN", "");
  if (!given.empty()) return std::filesystem::path(given);
  int newest = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
    int version = atoi(entry.path().filename().c_str());
    if (std::filesystem::exists(entry.path() / "bin/postgres")) newest = std::max(newest, version);
  }
  if (newest < kMajorVersionMin) {
    return absl::NotFoundError(fmt::format(
        "no PostgreSQL {} or newer in /usr/lib/postgresql: run deploy/install-packages test",
        kMajorVersionMin));
  }
  return std::filesystem::path(fmt::format("/usr/lib/postgresql/{}/bin", newest));
}

// PostgreSQL refuses to run as root.
absl::StatusOr<std::string> FindUser(const std::filesystem::path& scratch) {
  if (geteuid() != 0) return std::string();
  std::string user = EnvironmentOr("TIDEMARK_TEST_USER", "tidemark-test");
  const passwd* entry = getpwnam(user.c_str());
  if (entry == nullptr) {
    return absl::NotFoundError(fmt::format(
        "PostgreSQL does not run as root and there is no user {0}: useradd --system {0}", user));
  }
  if (chown(scratch.c_str(), entry->pw_uid, entry->pw_gid) != 0) {
    return absl::ErrnoToStatus(errno, scratch.string());
  }
  return user;
}

std::string Quoted(const std::string& value) {
  std::string quoted = "'";
  for (char c : value) {
    if (c == '\'') quoted += '\'';
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace

LivePostgres::LivePostgres(LivePostgresOptions options) : options_(std::move(options)) {}

LivePostgres::~LivePostgres() {
  Kill9();
  RemoveSharedMemory();
}

// A server that is killed leaves its segment behind, of which the system has some thousands for
// all. postmaster.pid names it in its seventh line, behind the key.
void LivePostgres::RemoveSharedMemory() const {
  std::ifstream file(data_dir() / "postmaster.pid");
  std::string line;
  for (int i = 0; i < 7; ++i) std::getline(file, line);
  unsigned long key = 0;
  int id = 0;
  if (file && sscanf(line.c_str(), "%lu %d", &key, &id) == 2) shmctl(id, IPC_RMID, nullptr);
}

absl::StatusOr<std::unique_ptr<LivePostgres>> LivePostgres::Create(LivePostgresOptions options) {
  std::unique_ptr<LivePostgres> postgres(new LivePostgres(std::move(options)));
  if (absl::Status status = postgres->MakeConfigured(); !status.ok()) return status;
  if (absl::Status status = postgres->Start(); !status.ok()) return status;
  return postgres;
}

absl::StatusOr<std::unique_ptr<LivePostgres>> LivePostgres::CreateStandby(
    const LivePostgres& primary, const std::vector<std::pair<std::string, std::string>>& settings) {
  LivePostgresOptions options = primary.options_;
  options.settings.insert(options.settings.end(), settings.begin(), settings.end());
  std::unique_ptr<LivePostgres> postgres(new LivePostgres(std::move(options)));
  if (absl::Status status = postgres->FindPlace(); !status.ok()) return status;
  if (absl::Status status = postgres->CopyCluster(primary); !status.ok()) return status;
  if (absl::Status status = postgres->WriteConfig(); !status.ok()) return status;
  if (absl::Status status = postgres->Start(); !status.ok()) return status;
  return postgres;
}

absl::StatusOr<std::unique_ptr<LivePostgres>> LivePostgres::CreateUpgraded(
    const LivePostgres& old, LivePostgresOptions options) {
  std::unique_ptr<LivePostgres> postgres(new LivePostgres(std::move(options)));
  if (absl::Status status = postgres->MakeConfigured(); !status.ok()) return status;
  if (absl::Status status = postgres->Upgrade(old); !status.ok()) return status;
  if (absl::Status status = postgres->Start(); !status.ok()) return status;
  return postgres;
}

absl::Status LivePostgres::FindPlace() {
  absl::StatusOr<std::filesystem::path> bin_dir =
      options_.bin_dir.empty() ? FindBinaries() : options_.bin_dir;
  if (!bin_dir.ok()) return bin_dir.status();
  bin_dir_ = *bin_dir;
  absl::StatusOr<std::string> user = FindUser(scratch_.path());
  if (!user.ok()) return user.status();
  user_ = *user;
  port_ = FreePort();
  return absl::OkStatus();
}

absl::Status LivePostgres::MakeConfigured() {
  absl::Status status = FindPlace();
  if (status.ok()) {
    status = MakeCluster({bin_dir_, scratch_.path(), user_, options_.initdb_arguments});
  }
  return status.ok() ? WriteConfig() : status;
}

absl::Status LivePostgres::CopyCluster(const LivePostgres& primary) {
  ProcessOptions copy;
  copy.argv = {bin_dir_ / "pg_basebackup",
               "--pgdata",
               data_dir(),
               "--dbname",
               primary.conninfo(),
               "--write-recovery-conf",
               "--wal-method=stream",
               "--checkpoint=fast",
               "--no-sync"};
  copy.output_dir = scratch_.path();
  copy.name = "pg_basebackup";
  copy.user = user_;
  copy.working_dir = scratch_.path();
  return RunCommand(std::move(copy), kCopyDeadline).status();
}

absl::Status LivePostgres::Upgrade(const LivePostgres& old) const {
  ProcessOptions upgrade;
  upgrade.argv = {bin_dir_ / "pg_upgrade",
                  "--old-bindir",
                  old.bin_dir_,
                  "--new-bindir",
                  bin_dir_,
                  "--old-datadir",
                  old.data_dir(),
                  "--new-datadir",
                  data_dir(),
                  "--old-port",
                  std::to_string(old.port_),
                  "--new-port",
                  std::to_string(port_),
                  "--socketdir",
                  scratch_.path(),
                  "--username",
                  "postgres"};
  upgrade.output_dir = scratch_.path();
  upgrade.name = "pg_upgrade";
  upgrade.user = user_;
  upgrade.working_dir = scratch_.path();
  return RunCommand(std::move(upgrade), kUpgradeDeadline).status();
}

absl::Status LivePostgres::Promote() {
  // Waits up to a minute by itself.
  const absl::StatusOr<std::string> promoted = QueryValue("select pg_promote()");
  if (!promoted.ok()) return promoted.status();
  return *promoted == "t" ? absl::OkStatus() : absl::UnavailableError("it was not promoted");
}

absl::Status LivePostgres::WriteConfig() {
  std::ofstream config(data_dir() / "postgresql.conf", std::ios::app);
  config
      << "listen_addresses = '127.0.0.1'\n"
      << "port = " << port_ << "\n"
      << "unix_socket_directories = " << Quoted(scratch_.path()) << "\n"
      << "wal_level = logical\n"
      << "max_wal_senders = 20\n"
      << "max_replication_slots = 20\n"
      << "max_connections = 100\n"
      << "shared_buffers = 32MB\n"
      // In its folder, and gone with it: a server that is killed leaves its segments in /dev/shm.
      << "dynamic_shared_memory_type = mmap\n"
      << "fsync = " << (options_.fsync ? "on" : "off") << "\n"
      << "log_line_prefix = '%m [%p] '\n"
      << "log_replication_commands = on\n"
      << "timezone = 'UTC'\n";
  if (!options_.certificate_file.empty()) config << "ssl = on\n";
  for (const auto& [name, value] : options_.settings)
    config << name << " = " << Quoted(value) << "\n";
  config.close();
  if (!config) return absl::InternalError("postgresql.conf could not be written");

  std::ifstream old_rules(data_dir() / "pg_hba.conf");
  std::ostringstream rest;
  rest << old_rules.rdbuf();
  std::vector<std::string> rules = options_.hba_lines;
  rules.push_back(rest.str());
  if (absl::Status status = SetHbaLines(rules); !status.ok()) return status;
  return options_.certificate_file.empty() ? absl::OkStatus() : CopyCertificate();
}

absl::Status LivePostgres::SetHbaLines(const std::vector<std::string>& lines) {
  std::ofstream rules(data_dir() / "pg_hba.conf", std::ios::trunc);
  for (const std::string& line : lines) rules << line << "\n";
  rules.close();
  return rules ? absl::OkStatus() : absl::InternalError("pg_hba.conf could not be written");
}

// PostgreSQL wants the key to be its own, and nobody else's.
absl::Status LivePostgres::CopyCertificate() {
  const passwd* entry = user_.empty() ? nullptr : getpwnam(user_.c_str());
  for (const auto& [from, to] : {std::pair(options_.certificate_file, data_dir() / "server.crt"),
                                 std::pair(options_.key_file, data_dir() / "server.key")}) {
    std::error_code failed;
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, failed);
    if (failed) return absl::InternalError(fmt::format("{}: {}", from, failed.message()));
    if (chmod(to.c_str(), 0600) != 0 ||
        (entry != nullptr && chown(to.c_str(), entry->pw_uid, entry->pw_gid) != 0)) {
      return absl::ErrnoToStatus(errno, to.string());
    }
  }
  return absl::OkStatus();
}

absl::Status LivePostgres::AddSetting(const std::string& name, const std::string& value) {
  std::ofstream config(data_dir() / "postgresql.conf", std::ios::app);
  config << name << " = " << Quoted(value) << "\n";
  config.close();
  return config ? absl::OkStatus() : absl::InternalError("postgresql.conf could not be written");
}

absl::Status LivePostgres::Start() {
  if (IsRunning()) return absl::FailedPreconditionError("PostgreSQL already runs");
  ProcessOptions server;
  server.argv = {bin_dir_ / "postgres", "-D", data_dir()};
  server.output_dir = scratch_.path();
  server.name = "postgres";
  server.user = user_;
  server.working_dir = scratch_.path();
  absl::StatusOr<std::unique_ptr<Process>> started = Process::Start(std::move(server));
  if (!started.ok()) return started.status();
  process_ = std::move(*started);
  const std::string target = socket_conninfo();
  ::testing::AssertionResult ready =
      WaitUntil([&] { return PQping(target.c_str()) == PQPING_OK || !process_->IsRunning(); },
                kStartDeadline);
  if (!ready || !process_->IsRunning()) {
    return absl::UnavailableError("PostgreSQL did not start. " + process_->Diagnostics());
  }
  return absl::OkStatus();
}

absl::Status LivePostgres::Stop(StopMode mode) {
  if (!IsRunning()) return absl::OkStatus();
  process_->Signal(mode == StopMode::kFast ? SIGINT : SIGQUIT);
  return process_->WaitForExit(kStopDeadline).status();
}

absl::Status LivePostgres::Restart(StopMode mode) {
  if (absl::Status status = Stop(mode); !status.ok()) return status;
  return Start();
}

void LivePostgres::Kill9() {
  if (process_ != nullptr) process_->Kill9();
}

void LivePostgres::Pause() {
  if (!IsRunning()) return;
  process_->Signal(SIGSTOP);  // First, so that it forks no more.
  for (pid_t child : Descendants(process_->pid())) kill(child, SIGSTOP);
}

void LivePostgres::Resume() {
  if (!IsRunning()) return;
  for (pid_t child : Descendants(process_->pid())) kill(child, SIGCONT);
  process_->Signal(SIGCONT);
}

bool LivePostgres::IsRunning() { return process_ != nullptr && process_->IsRunning(); }

std::string LivePostgres::conninfo(const std::string& dbname, const std::string& extra) const {
  return fmt::format("host=127.0.0.1 port={} user=postgres dbname={} {}", port_, dbname, extra);
}

std::string LivePostgres::socket_conninfo(const std::string& dbname,
                                          const std::string& extra) const {
  return fmt::format("host={} port={} user=postgres dbname={} {}", scratch_.path().string(), port_,
                     dbname, extra);
}

std::string LivePostgres::Log() const {
  std::ifstream file(scratch_ / "postgres.stderr");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

absl::StatusOr<std::unique_ptr<PgSession>> LivePostgres::Connect(const std::string& dbname,
                                                                 const std::string& extra) const {
  return PgSession::Connect(conninfo(dbname, extra));
}

std::unique_ptr<PgSession> LivePostgres::TakeSession() {
  const std::lock_guard lock(session_mutex_);
  return std::move(session_);
}

absl::StatusOr<PgRows> LivePostgres::Query(const std::string& sql) {
  std::unique_ptr<PgSession> session = TakeSession();
  if (session == nullptr || !session->IsQuiet()) {
    absl::StatusOr<std::unique_ptr<PgSession>> connected = Connect();
    if (!connected.ok()) return connected.status();
    session = *std::move(connected);
  }
  absl::StatusOr<PgRows> rows = session->Query(sql);
  if (session->Reset()) {
    const std::lock_guard lock(session_mutex_);
    session_ = std::move(session);
  }
  return rows;
}

absl::Status LivePostgres::Exec(const std::string& sql) { return Query(sql).status(); }

absl::StatusOr<std::string> LivePostgres::QueryValue(const std::string& sql) {
  absl::StatusOr<PgRows> rows = Query(sql);
  if (!rows.ok()) return rows.status();
  return rows->Value();
}

}  // namespace tidemark::testing
