// One session with PostgreSQL: SQL, COPY TO STDOUT, or the replication protocol. The only file that
// knows libpq.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/target.h"

struct pg_conn;
struct pg_result;

namespace tidemark::capture::postgres {

// Ends waits from another thread. Stays raised until it is consumed, so that a wait that begins
// just after Raise ends as well. Safe from any thread.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  void Raise();
  // True when it was raised.
  bool Consume();
  int fd() const { return fd_; }

 private:
  int fd_;
};

// A result as text; nullopt is NULL.
struct ResultRows {
  std::vector<std::vector<std::optional<std::string>>> rows;

  bool empty() const { return rows.empty(); }
  // Empty text for NULL. REQUIRES: the row and the column exist.
  const std::string& Text(size_t row, size_t column) const;
  // 0 for NULL.
  uint64_t Number(size_t row, size_t column) const;
  bool IsNull(size_t row, size_t column) const { return !rows[row][column].has_value(); }
  bool True(size_t row, size_t column) const { return Text(row, column) == "t"; }
};

// Thread rule: one thread at a time, but for the Interruption. Nothing waits longer than the
// deadline that it is given: SOURCE_SILENT. An interrupted wait fails with CANCELLED where nothing
// else is said. Settings on which the text of values depends are pinned on every session
// (DateStyle, TimeZone, …), and those by which rows would be left out in silence (row_security),
// against whatever the role or the database says (R52). Errors carry a reason and never the
// password. After an error the connection is to be given up, but for one with a SQLSTATE that a
// statement was answered with: it only ends the transaction.
class Connection {
 public:
  enum class Kind { kSql, kReplication };
  // What NextCopy found.
  enum class Copy { kData, kNothingYet, kEnd };
  enum class Wake { kReadable, kInterrupted, kDeadline };

  // `interruption` must outlive the connection.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Target& target, Kind kind,
                                                          Interruption* interruption,
                                                          absl::Time deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // As PostgreSQL counts: 150020.
  int server_version() const;
  int backend_pid() const;

  // Runs one or several statements; the rows are those of the last. `doing` stands in errors.
  absl::StatusOr<ResultRows> Query(const std::string& sql, std::string_view doing,
                                   absl::Time deadline);

  // The same of one statement that this session is asked again and again, word for word: the server
  // plans it once. What the catalog is asked takes longer to plan than to answer.
  absl::StatusOr<ResultRows> QueryAgain(const std::string& sql, std::string_view doing,
                                        absl::Time deadline);

  // Query in two steps. Collect returns nothing while the result is not there yet, at the
  // deadline or when interrupted.
  absl::Status Send(const std::string& sql, std::string_view doing);
  absl::StatusOr<std::optional<ResultRows>> Collect(absl::Time deadline);

  // COPY … TO STDOUT, or START_REPLICATION: afterwards NextCopy yields its lines or frames.
  absl::Status StartCopy(const std::string& sql, std::string_view doing, absl::Time deadline);
  // Never waits. `data` is valid until the next call.
  absl::StatusOr<Copy> NextCopy(std::string_view* data);
  absl::Status SendCopy(std::string_view data, absl::Time deadline);

  // Waits until bytes arrived and takes them in. `nudge` ends this wait alone, and is consumed by
  // it.
  absl::StatusOr<Wake> Wait(absl::Time deadline, Interruption* nudge = nullptr);
  // True once after bytes came from the server, be it a part of a message.
  bool TakeArrived() { return std::exchange(arrived_, false); }

 private:
  Connection(pg_conn* connection, const Target& target, std::string password,
             Interruption* interruption);

  absl::Status FinishConnecting(absl::Time deadline);
  absl::Status PinSettings(Kind kind, absl::Time deadline);
  absl::StatusOr<Wake> WaitFor(short events, absl::Time deadline, Interruption* nudge = nullptr);
  absl::Status Flush(absl::Time deadline);
  absl::Status Error(const pg_result* result) const;
  // The same, and takes what still comes of the statement.
  absl::Status Refused(const pg_result* result, absl::Time deadline);
  absl::Status Silent(absl::Time since) const;

  pg_conn* connection_;  // owned
  Interruption* interruption_;
  std::string target_text_;
  std::string password_;
  std::string doing_;
  bool arrived_ = false;
  // Names of prepared statements, by their text.
  absl::flat_hash_map<std::string, std::string> prepared_;
  char* copy_ = nullptr;  // owned: what NextCopy gave out last
};

}  // namespace tidemark::capture::postgres
