// One connection to PostgreSQL that a test steps through by hand. Replication commands work too
// (simple query protocol, with replication=database in the conninfo).
//
// Thread rule: one thread at a time. Errors carry the SQLSTATE: "ERROR 55006: replication slot ...
// is active".
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct pg_conn;
struct pg_result;

namespace tidemark::testing {

struct PgRows {
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<std::string>>> rows;  // text; nullopt is NULL

  // First column of the first row; empty when there is none.
  std::string Value() const;
};

class PgSession {
 public:
  static absl::StatusOr<std::unique_ptr<PgSession>> Connect(const std::string& conninfo);
  ~PgSession();
  PgSession(const PgSession&) = delete;
  PgSession& operator=(const PgSession&) = delete;

  // Several statements in one text run as one transaction; the rows are those of the last.
  absl::Status Exec(const std::string& sql);
  absl::StatusOr<PgRows> Query(const std::string& sql);
  absl::StatusOr<std::string> QueryValue(const std::string& sql);
  // `sql` is COPY ... FROM STDIN; `data` is its input.
  absl::Status CopyIn(const std::string& sql, std::string_view data);

  // A statement that is expected to block: Send returns at once, Wait collects the result.
  absl::Status Send(const std::string& sql);
  bool IsBusy();
  absl::StatusOr<PgRows> Wait(std::chrono::milliseconds deadline);

  int backend_pid() const;
  // Connected, and the server has nothing to say: what it says between two statements is mostly
  // that it ends.
  bool IsQuiet() const;
  // Makes it as a new one would be, but for what it has cached. False: not to be used again.
  bool Reset();

 private:
  explicit PgSession(pg_conn* connection) : connection_(connection) {}
  absl::StatusOr<PgRows> Collect(pg_result* result) const;

  pg_conn* connection_;  // owned
};

}  // namespace tidemark::testing
