#include "capture/postgres/connection.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/time/clock.h"
#include "capture/postgres/server_error.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// The role's own would end the pinning itself.
constexpr char kStartupOptions[] = "-c statement_timeout=0";
// What the text of a value depends on, what would leave rows out, and what would end a session that
// waits for its turn. lc_monetary C: money without the sign and grouping of a country. search_path
// empty: regclass and its like are printed with their schema. row_security off: an error where a
// policy would hide rows. role none: the privileges are those of the user who is configured.
constexpr char kPinnedSettings[] =
    "SET client_encoding = 'UTF8'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'; "
    "SET timezone = 'UTC'; SET bytea_output = 'hex'; SET extra_float_digits = 3; "
    "SET lc_monetary = 'C'; SET search_path = ''; SET standard_conforming_strings = on; "
    "SET quote_all_identifiers = off; SET array_nulls = on; SET row_security = off; "
    "SET gin_fuzzy_search_limit = 0; SET default_transaction_isolation = 'read committed'; "
    "SET role = 'none'; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";
constexpr char kPinnedSince14[] = "; SET idle_session_timeout = 0";
constexpr char kPinnedSince17[] = "; SET transaction_timeout = 0";
// Transactions below this are decoded in the server's memory rather than through its disk.
constexpr char kReplicationSettings[] = "; SET logical_decoding_work_mem = '256MB'";
// Statements that the server keeps planned for a session.
constexpr size_t kPreparedMax = 16;
constexpr int kVersion14 = 140000;
constexpr int kVersion17 = 170000;

int TimeoutMs(absl::Time deadline) {
  const absl::Duration left = deadline - absl::Now();
  if (left <= absl::ZeroDuration()) return 0;
  // Rounded up, so that a wait never spins through its last millisecond.
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 24 * 60 * 60 * 1000));
}

}  // namespace

Interruption::Interruption() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
Interruption::~Interruption() { close(fd_); }

void Interruption::Raise() {
  const uint64_t one = 1;
  // Full means raised already.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
}

bool Interruption::Consume() {
  uint64_t count = 0;
  return read(fd_, &count, sizeof count) == sizeof count;
}

const std::string& ResultRows::Text(size_t row, size_t column) const {
  static const std::string kEmpty;
  const std::optional<std::string>& value = rows[row][column];
  return value.has_value() ? *value : kEmpty;
}

uint64_t ResultRows::Number(size_t row, size_t column) const {
  return strtoull(Text(row, column).c_str(), nullptr, 10);
}

Connection::Connection(pg_conn* connection, const Target& target, std::string password,
                       Interruption* interruption)
    : connection_(connection),
      interruption_(interruption),
      target_text_(target.Text()),
      password_(std::move(password)),
      doing_("connecting") {}

Connection::~Connection() {
  PQfreemem(copy_);
  PQfinish(connection_);
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Target& target, Kind kind,
                                                             Interruption* interruption,
                                                             absl::Time deadline) {
  absl::StatusOr<std::string> password = PasswordOf(target);
  if (!password.ok()) return password.status();
  const std::string port = std::to_string(target.port);
  std::vector<const char*> names;
  std::vector<const char*> values;
  // `value` must live until the connection is begun.
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    names.push_back(name);
    values.push_back(value.c_str());
  };
  const std::string replication = kind == Kind::kReplication ? "database" : "";
  const std::string options = kStartupOptions;
  add("host", target.host);
  add("port", port);
  add("dbname", target.database);
  add("user", target.user);
  add("password", *password);
  add("sslmode", target.sslmode);
  add("sslrootcert", target.sslrootcert);
  add("application_name", target.application_name);
  add("replication", replication);
  add("options", options);
  // A peer that vanished without a word is noticed by TCP even while nothing is sent.
  const std::string idle_s = "30", interval_s = "10", count = "3";
  add("keepalives_idle", idle_s);
  add("keepalives_interval", interval_s);
  add("keepalives_count", count);
  names.push_back(nullptr);
  values.push_back(nullptr);

  pg_conn* const begun = PQconnectStartParams(names.data(), values.data(), /*expand_dbname=*/0);
  std::unique_ptr<Connection> connection(
      new Connection(begun, target, *std::move(password), interruption));
  if (absl::Status status = connection->FinishConnecting(deadline); !status.ok()) return status;
  if (absl::Status status = connection->PinSettings(kind, deadline); !status.ok()) return status;
  return connection;
}

absl::Status Connection::FinishConnecting(absl::Time deadline) {
  const absl::Time since = absl::Now();
  if (connection_ == nullptr) return absl::ResourceExhaustedError("out of memory");
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED || PQstatus(connection_) == CONNECTION_BAD) {
      return Error(nullptr);
    }
    absl::StatusOr<Wake> wake = WaitFor(next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
    if (!wake.ok()) return wake.status();
    if (*wake == Wake::kInterrupted) return absl::CancelledError("interrupted while connecting");
    if (*wake == Wake::kDeadline) return Silent(since);
    next = PQconnectPoll(connection_);
  }
  // Notices would go to standard error.
  PQsetNoticeReceiver(
      connection_, [](void*, const PGresult*) {}, nullptr);
  if (PQsetnonblocking(connection_, 1) != 0) return Error(nullptr);
  return absl::OkStatus();
}

absl::Status Connection::PinSettings(Kind kind, absl::Time deadline) {
  std::string settings = kPinnedSettings;
  if (server_version() >= kVersion14) settings += kPinnedSince14;
  if (server_version() >= kVersion17) settings += kPinnedSince17;
  if (kind == Kind::kReplication) settings += kReplicationSettings;
  return Query(settings, "pinning the session's settings", deadline).status();
}

int Connection::server_version() const { return PQserverVersion(connection_); }
int Connection::backend_pid() const { return PQbackendPID(connection_); }

absl::StatusOr<Connection::Wake> Connection::WaitFor(short events, absl::Time deadline,
                                                     Interruption* nudge) {
  // poll looks past a descriptor that is negative.
  pollfd fds[3] = {{PQsocket(connection_), events, 0},
                   {interruption_->fd(), POLLIN, 0},
                   {nudge == nullptr ? -1 : nudge->fd(), POLLIN, 0}};
  int ready = poll(fds, 3, TimeoutMs(deadline));
  if (ready < 0 && errno == EINTR) return Wake::kReadable;  // The caller looks again.
  if (ready < 0) return absl::ErrnoToStatus(errno, "poll");
  if (ready > 0 && (fds[0].revents & POLLIN) != 0) arrived_ = true;
  if (fds[1].revents != 0) return Wake::kInterrupted;
  if (fds[2].revents != 0) {
    nudge->Consume();
    return Wake::kInterrupted;
  }
  return ready == 0 ? Wake::kDeadline : Wake::kReadable;
}

absl::StatusOr<Connection::Wake> Connection::Wait(absl::Time deadline, Interruption* nudge) {
  absl::StatusOr<Wake> wake = WaitFor(POLLIN, deadline, nudge);
  if (wake.ok() && *wake == Wake::kReadable && PQconsumeInput(connection_) == 0) {
    return Error(nullptr);
  }
  return wake;
}

absl::Status Connection::Flush(absl::Time deadline) {
  const absl::Time since = absl::Now();
  while (true) {
    const int left = PQflush(connection_);
    if (left == 0) return absl::OkStatus();
    if (left < 0) return Error(nullptr);
    // Also reads: the server may be waiting for us to take what it sent.
    absl::StatusOr<Wake> wake = WaitFor(POLLIN | POLLOUT, deadline);
    if (!wake.ok()) return wake.status();
    if (*wake == Wake::kInterrupted) return absl::CancelledError("interrupted while sending");
    if (*wake == Wake::kDeadline) return Silent(since);
    if (PQconsumeInput(connection_) == 0) return Error(nullptr);
  }
}

absl::Status Connection::Send(const std::string& sql, std::string_view doing) {
  doing_ = doing;
  if (PQsendQuery(connection_, sql.c_str()) == 0) return Error(nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ResultRows>> Connection::Collect(absl::Time deadline) {
  if (absl::Status status = Flush(deadline); !status.ok()) return status;
  ResultRows rows;
  while (true) {
    while (PQisBusy(connection_)) {
      absl::StatusOr<Wake> wake = Wait(deadline);
      if (!wake.ok()) return wake.status();
      if (*wake != Wake::kReadable) return std::optional<ResultRows>();
    }
    std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection_), PQclear);
    if (result == nullptr) return std::optional<ResultRows>(std::move(rows));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
      return Refused(result.get(), deadline);
    }
    rows.rows.clear();
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      std::vector<std::optional<std::string>>& values = rows.rows.emplace_back();
      for (int column = 0; column < PQnfields(result.get()); ++column) {
        if (PQgetisnull(result.get(), row, column)) {
          values.emplace_back(std::nullopt);
        } else {
          values.emplace_back(std::string(PQgetvalue(result.get(), row, column),
                                          PQgetlength(result.get(), row, column)));
        }
      }
    }
  }
}

absl::StatusOr<ResultRows> Connection::Query(const std::string& sql, std::string_view doing,
                                             absl::Time deadline) {
  const absl::Time since = absl::Now();
  if (absl::Status status = Send(sql, doing); !status.ok()) return status;
  absl::StatusOr<std::optional<ResultRows>> rows = Collect(deadline);
  if (!rows.ok()) return rows.status();
  if (rows->has_value()) return **std::move(rows);
  if (absl::Now() < deadline) {
    return absl::CancelledError(fmt::format("interrupted while {}", doing_));
  }
  return Silent(since);
}

absl::StatusOr<ResultRows> Connection::QueryAgain(const std::string& sql, std::string_view doing,
                                                  absl::Time deadline) {
  auto found = prepared_.find(sql);
  if (found == prepared_.end()) {
    // A statement names the tables that there are: of those that there were, the plans go.
    if (prepared_.size() == kPreparedMax) {
      absl::Status forgotten = Query("DEALLOCATE ALL", doing, deadline).status();
      if (!forgotten.ok()) return forgotten;
      prepared_.clear();
    }
    const std::string name = fmt::format("tidemark_{}", prepared_.size());
    absl::Status prepared =
        Query(fmt::format("PREPARE {} AS {}", name, sql), doing, deadline).status();
    if (!prepared.ok()) return prepared;
    found = prepared_.emplace(sql, name).first;
  }
  return Query("EXECUTE " + found->second, doing, deadline);
}

absl::Status Connection::StartCopy(const std::string& sql, std::string_view doing,
                                   absl::Time deadline) {
  const absl::Time since = absl::Now();
  if (absl::Status status = Send(sql, doing); !status.ok()) return status;
  if (absl::Status status = Flush(deadline); !status.ok()) return status;
  while (PQisBusy(connection_)) {
    absl::StatusOr<Wake> wake = Wait(deadline);
    if (!wake.ok()) return wake.status();
    if (*wake == Wake::kInterrupted) {
      return absl::CancelledError(fmt::format("interrupted while {}", doing_));
    }
    if (*wake == Wake::kDeadline) return Silent(since);
  }
  std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection_), PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COPY_OUT && status != PGRES_COPY_BOTH) return Refused(result.get(), deadline);
  return absl::OkStatus();
}

// What comes behind an error is the end of its statement; then another one may be sent.
absl::Status Connection::Refused(const pg_result* result, absl::Time deadline) {
  absl::Status error = Error(result);
  while (PQstatus(connection_) == CONNECTION_OK) {
    while (PQisBusy(connection_)) {
      const absl::StatusOr<Wake> wake = Wait(deadline);
      if (!wake.ok() || *wake != Wake::kReadable) return error;
    }
    const std::unique_ptr<PGresult, decltype(&PQclear)> rest(PQgetResult(connection_), PQclear);
    if (rest == nullptr || PQresultStatus(rest.get()) != PGRES_FATAL_ERROR) break;
  }
  return error;
}

absl::StatusOr<Connection::Copy> Connection::NextCopy(std::string_view* data) {
  PQfreemem(copy_);
  copy_ = nullptr;
  const int length = PQgetCopyData(connection_, &copy_, /*async=*/1);
  if (length > 0) {
    *data = std::string_view(copy_, length);
    return Copy::kData;
  }
  if (length == 0) return Copy::kNothingYet;
  if (length == -2) return Error(nullptr);
  // The end of the copy says only in its result whether it was the end of the data.
  while (true) {
    std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection_), PQclear);
    if (result == nullptr) return Copy::kEnd;
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COPY_IN) return Copy::kEnd;  // Our half of a replication stream is open.
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) return Error(result.get());
  }
}

absl::Status Connection::SendCopy(std::string_view data, absl::Time deadline) {
  const int put = PQputCopyData(connection_, data.data(), static_cast<int>(data.size()));
  if (put < 0) return Error(nullptr);
  return Flush(deadline);
}

absl::Status Connection::Error(const pg_result* result) const {
  const char* state = result != nullptr ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const char* primary =
      state != nullptr ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  const char* detail =
      state != nullptr ? PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL) : nullptr;
  std::string message = primary != nullptr ? primary : PQerrorMessage(connection_);
  if (detail != nullptr) message += fmt::format(" ({})", detail);
  if (message.empty()) message = "the server closed the connection";
  // libpq does not print it; a server or proxy might.
  if (!password_.empty()) {
    for (size_t at = 0; (at = message.find(password_, at)) != std::string::npos; at += 3) {
      message.replace(at, password_.size(), "***");
    }
  }
  const std::string doing = fmt::format("{}, {}", doing_, target_text_);
  return StatusOf({.sqlstate = state != nullptr ? state : "", .message = message, .doing = doing});
}

absl::Status Connection::Silent(absl::Time since) const {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceSilent,
                         fmt::format("{}, {}: no answer within {:.1f} s; it is tried again", doing_,
                                     target_text_, absl::ToDoubleSeconds(absl::Now() - since)));
}

}  // namespace tidemark::capture::postgres
