// A real PostgreSQL cluster of the test's own, with logical decoding, in a scratch folder:
// 127.0.0.1 on a free port and a Unix socket in that folder. Trust authentication for everybody
// unless `hba_lines` say otherwise; superuser "postgres".
//
// Thread rule: one thread at a time, but for conninfo(), which is constant. Binaries: the newest
// /usr/lib/postgresql/NN/bin, or $TIDEMARK_POSTGRES_BIN. As root it runs under the system user
// $TIDEMARK_TEST_USER (default tidemark-test, made by tests/run). Nothing is left behind, however
// the test program ends (see process.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/testing/pg_session.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {

struct LivePostgresOptions {
  bool fsync = false;  // off is several times faster and survives kill -9; on where power loss is
                       // what is tested
  std::vector<std::pair<std::string, std::string>>
      settings;  // postgresql.conf; the later one wins, also over our defaults
  std::vector<std::string> hba_lines;         // put before the trust lines of pg_hba.conf
  std::vector<std::string> initdb_arguments;  // e.g. "--encoding=UTF8"
  std::string certificate_file;               // with its key: served over TLS, too
  std::string key_file;
  std::filesystem::path bin_dir;  // empty: see above
};

enum class StopMode {
  kFast,       // what a service manager does: sessions are ended, walsenders drain, a checkpoint is
               // written
  kImmediate,  // no checkpoint; the next start recovers
};

class LivePostgres {
 public:
  // A cluster as initdb makes it, then Start. UNAVAILABLE or NOT_FOUND says what is missing on the
  // machine.
  static absl::StatusOr<std::unique_ptr<LivePostgres>> Create(LivePostgresOptions options = {});
  // A hot standby of a running `primary`, with its settings and these.
  static absl::StatusOr<std::unique_ptr<LivePostgres>> CreateStandby(
      const LivePostgres& primary,
      const std::vector<std::pair<std::string, std::string>>& settings = {});
  // What pg_upgrade makes of `old`, which does not run, and can be started again. `options` for the
  // new cluster, which has to have checksums where the old one has.
  static absl::StatusOr<std::unique_ptr<LivePostgres>> CreateUpgraded(
      const LivePostgres& old, LivePostgresOptions options = {});
  ~LivePostgres();
  LivePostgres(const LivePostgres&) = delete;
  LivePostgres& operator=(const LivePostgres&) = delete;

  // Of a standby; returns once it takes writes.
  absl::Status Promote();

  absl::Status Start();  // returns once it accepts connections; same port and folder every time
  absl::Status Stop(StopMode mode = StopMode::kFast);
  absl::Status Restart(StopMode mode = StopMode::kFast);
  void Kill9();  // the postmaster and every backend, at once
  void Pause();  // SIGSTOP to all of them: connected, and silent
  void Resume();
  bool IsRunning();

  // Over TCP. `extra` is appended, e.g. "user=reader replication=database".
  std::string conninfo(const std::string& dbname = "postgres", const std::string& extra = "") const;
  std::string socket_conninfo(const std::string& dbname = "postgres",
                              const std::string& extra = "") const;
  uint16_t port() const { return port_; }
  std::filesystem::path data_dir() const { return scratch_ / "data"; }
  // Programs of the server's own version.
  std::filesystem::path bin_dir() const { return bin_dir_; }
  std::string Log() const;

  // Each on a session of the database "postgres" that is as new. Any thread; none waits for the
  // statement of another.
  absl::Status Exec(const std::string& sql);
  absl::StatusOr<PgRows> Query(const std::string& sql);
  absl::StatusOr<std::string> QueryValue(const std::string& sql);
  absl::StatusOr<std::unique_ptr<PgSession>> Connect(const std::string& dbname = "postgres",
                                                     const std::string& extra = "") const;

  // Appends to postgresql.conf; takes effect at Restart or pg_reload_conf().
  absl::Status AddSetting(const std::string& name, const std::string& value);
  // All of pg_hba.conf; takes effect as a setting does.
  absl::Status SetHbaLines(const std::vector<std::string>& lines);

 private:
  explicit LivePostgres(LivePostgresOptions options);
  absl::Status FindPlace();
  // A cluster of its own at that place, configured.
  absl::Status MakeConfigured();
  void RemoveSharedMemory() const;
  std::unique_ptr<PgSession> TakeSession();
  absl::Status CopyCluster(const LivePostgres& primary);
  absl::Status Upgrade(const LivePostgres& old) const;
  absl::Status WriteConfig();
  absl::Status CopyCertificate();

  LivePostgresOptions options_;
  ScratchDir scratch_{"pg"};
  std::filesystem::path bin_dir_;
  std::string user_;  // empty: this process's own
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
  std::mutex session_mutex_;
  // Between two statements: what a backend costs to start, some of them cost as well.
  std::unique_ptr<PgSession> session_;
};

}  // namespace tidemark::testing
