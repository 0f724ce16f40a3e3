#include "tests/testing/pg_session.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

std::string TrimmedError(const PGconn* connection) {
  std::string text = PQerrorMessage(connection);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

absl::Status ResultError(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* severity = PQresultErrorField(result, PG_DIAG_SEVERITY);
  const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (state == nullptr) return absl::UnavailableError(PQresultErrorMessage(result));
  return absl::InternalError(fmt::format("{} {}: {}", severity != nullptr ? severity : "ERROR",
                                         state, message != nullptr ? message : ""));
}

PgRows AllRows(const PGresult* result) {
  PgRows rows;
  const int column_count = PQnfields(result);
  for (int column = 0; column < column_count; ++column) {
    rows.columns.emplace_back(PQfname(result, column));
  }
  for (int row = 0; row < PQntuples(result); ++row) {
    auto& cells = rows.rows.emplace_back();
    for (int column = 0; column < column_count; ++column) {
      if (PQgetisnull(result, row, column)) {
        cells.push_back(std::nullopt);
      } else {
        cells.emplace_back(std::string(PQgetvalue(result, row, column),
                                       static_cast<size_t>(PQgetlength(result, row, column))));
      }
    }
  }
  return rows;
}

}  // namespace

std::string PgRows::Value() const {
  if (rows.empty() || rows[0].empty()) return "";
  return rows[0][0].value_or("");
}

absl::StatusOr<std::unique_ptr<PgSession>> PgSession::Connect(const std::string& conninfo) {
  PGconn* connection = PQconnectdb(conninfo.c_str());
  std::unique_ptr<PgSession> session(new PgSession(connection));
  if (PQstatus(connection) != CONNECTION_OK)
    return absl::UnavailableError(TrimmedError(connection));
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  return session;
}

PgSession::~PgSession() { PQfinish(connection_); }

absl::StatusOr<PgRows> PgSession::Collect(PGresult* result) const {
  if (result == nullptr) return absl::UnavailableError(TrimmedError(connection_));
  std::unique_ptr<PGresult, decltype(&PQclear)> owned(result, &PQclear);
  switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
      return AllRows(result);
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      return PgRows{};
    default:
      return ResultError(result);
  }
}

absl::StatusOr<PgRows> PgSession::Query(const std::string& sql) {
  return Collect(PQexec(connection_, sql.c_str()));
}

absl::Status PgSession::Exec(const std::string& sql) { return Query(sql).status(); }

absl::StatusOr<std::string> PgSession::QueryValue(const std::string& sql) {
  absl::StatusOr<PgRows> rows = Query(sql);
  if (!rows.ok()) return rows.status();
  return rows->Value();
}

absl::Status PgSession::CopyIn(const std::string& sql, std::string_view data) {
  if (absl::Status status = Exec(sql); !status.ok()) return status;
  if (PQputCopyData(connection_, data.data(), static_cast<int>(data.size())) != 1 ||
      PQputCopyEnd(connection_, nullptr) != 1) {
    return absl::UnavailableError(TrimmedError(connection_));
  }
  absl::Status status;
  while (PGresult* result = PQgetResult(connection_)) status.Update(Collect(result).status());
  return status;
}

absl::Status PgSession::Send(const std::string& sql) {
  if (PQsendQuery(connection_, sql.c_str()) != 1)
    return absl::UnavailableError(TrimmedError(connection_));
  PQflush(connection_);
  return absl::OkStatus();
}

bool PgSession::IsBusy() {
  PQconsumeInput(connection_);
  return PQisBusy(connection_) != 0;
}

absl::StatusOr<PgRows> PgSession::Wait(std::chrono::milliseconds deadline) {
  if (!WaitUntil([this] { return !IsBusy(); }, deadline)) {
    return absl::DeadlineExceededError("the statement is still running");
  }
  absl::StatusOr<PgRows> last = PgRows{};
  while (PGresult* result = PQgetResult(connection_)) {
    absl::StatusOr<PgRows> one = Collect(result);
    if (last.ok()) last = std::move(one);
  }
  return last;
}

bool PgSession::IsQuiet() const {
  pollfd socket{PQsocket(connection_), POLLIN, 0};
  return PQstatus(connection_) == CONNECTION_OK && poll(&socket, 1, 0) == 0;
}

bool PgSession::Reset() {
  return PQtransactionStatus(connection_) == PQTRANS_IDLE && Exec("discard all").ok();
}

int PgSession::backend_pid() const { return PQbackendPID(connection_); }

}  // namespace tidemark::testing
