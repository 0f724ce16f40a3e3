#include "capture/postgres/server_error.h"

#include <fmt/format.h>

#include <string>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

struct Meaning {
  absl::StatusCode code;
  std::string_view reason;
  std::string_view remedy;
};

constexpr Meaning kUnreachable{absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                               "it is tried again"};
constexpr Meaning kProxy{
    absl::StatusCode::kFailedPrecondition, reason::kSourceSetting,
    "a proxy or pooler that does not carry the replication protocol seems to stand before the "
    "server: connect to PostgreSQL directly"};
constexpr Meaning kPrivilege{absl::StatusCode::kPermissionDenied, reason::kSourcePrivilege,
                             "run tidemarkd --check for the statements that grant it"};

bool Holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Meaning OfConnecting(std::string_view text) {
  if (Holds(text, "password authentication failed") || Holds(text, "no password supplied")) {
    return {absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
            "check user, password and password_file; it is tried again"};
  }
  if (Holds(text, "pg_hba.conf") || Holds(text, "authentication failed") ||
      Holds(text, "is not permitted to log in") ||
      (Holds(text, "role \"") && Holds(text, "does not exist"))) {
    return {absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
            "let the role log in, and add a line for it to pg_hba.conf (a logical replication "
            "session matches the line of its database); it is tried again"};
  }
  if (Holds(text, "permission denied for database")) {
    return {absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
            "GRANT CONNECT ON DATABASE to the role; it is tried again"};
  }
  // The second since PostgreSQL 16.
  if (Holds(text, "must be superuser or replication role") ||
      Holds(text, "permission denied to start WAL sender")) {
    return {absl::StatusCode::kPermissionDenied, reason::kSourcePrivilege,
            "ALTER ROLE with REPLICATION"};
  }
  if (Holds(text, "unsupported startup parameter") || Holds(text, "replication connections")) {
    return kProxy;
  }
  if (Holds(text, "database \"") && Holds(text, "does not exist")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kSourceSetting,
            "name an existing database"};
  }
  if (Holds(text, "certificate") || Holds(text, "server does not support SSL")) {
    return {absl::StatusCode::kUnauthenticated, reason::kSourceAuthentication,
            "check sslmode and sslrootcert against the server's certificate; it is tried again"};
  }
  return kUnreachable;
}

Meaning OfReplicationObject(std::string_view text) {
  if (Holds(text, "publication")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kPublicationMissing,
            "it must exist from before the slot's position on"};
  }
  if (Holds(text, "replication slot")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kSlotMissing,
            "changes since it was last confirmed may be gone"};
  }
  return {absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol, "look at the server"};
}

Meaning OfObjectState(std::string_view text) {
  if (Holds(text, "wal_level")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kSourceSetting,
            "ALTER SYSTEM SET wal_level = logical, and restart the server"};
  }
  if (Holds(text, "physical replication slot") || Holds(text, "was not created in this database")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kSlotForeign,
            "configure another slot name"};
  }
  if (Holds(text, "being synchronized from the primary")) {
    return {absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
            "this standby keeps a copy of the primary's slot, for when it is promoted: connect to "
            "the primary, or promote it; it is tried again"};
  }
  if (Holds(text, "can no longer get changes") || Holds(text, "invalidated") ||
      Holds(text, "exceeded the maximum reserved size")) {
    return {absl::StatusCode::kDataLoss, reason::kSlotLost,
            "the server gave up the log that was needed"};
  }
  if (Holds(text, "publishes updates") || Holds(text, "publishes deletes")) {
    return {absl::StatusCode::kFailedPrecondition, reason::kSourceSetting,
            "ALTER TABLE with REPLICA IDENTITY"};
  }
  return {absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol, "look at the server"};
}

Meaning OfSqlState(std::string_view state, std::string_view text) {
  if (state == "28P01" || state == "28000" || state == "3D000") return OfConnecting(text);
  if (state == "42501") return Holds(text, "walsender") ? OfConnecting(text) : kPrivilege;
  if (state == "55006") {
    return {absl::StatusCode::kUnavailable, reason::kSlotActive,
            "end the other process; it is tried again"};
  }
  // Of a session that ended: on a standby, by a conflict with the replay.
  if (Holds(text, "snapshot") && (state == "22023" || state == "42704" || state == "55000")) {
    return kUnreachable;
  }
  if (state == "42704") return OfReplicationObject(text);
  if (state == "42710") {
    return {absl::StatusCode::kAlreadyExists, reason::kSlotForeign,
            "it was not made by this feed: drop it, or configure another name"};
  }
  if (state == "53400" && Holds(text, "replication slots")) {
    return {absl::StatusCode::kResourceExhausted, reason::kSlotsExhausted,
            "drop slots that nobody uses, or raise max_replication_slots and restart the server"};
  }
  if (state == "53300" && Holds(text, "max_wal_senders")) {
    return {absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
            "raise max_wal_senders and restart the server; it is tried again"};
  }
  if (state == "55000") return OfObjectState(text);
  if (state == "42P01") {
    return {absl::StatusCode::kFailedPrecondition, reason::kSourceTableMissing,
            "create the table, or take it out of the feed's tables"};
  }
  if (state == "58P01" && Holds(text, "WAL segment")) {
    return {absl::StatusCode::kDataLoss, reason::kSlotLost,
            "the server removed the log that was needed"};
  }
  if (state == "08P01") return kProxy;
  const std::string_view state_class = state.substr(0, 2);
  for (std::string_view passing : {"08", "40", "53", "55", "57", "58", "XX"}) {
    if (state_class == passing) return kUnreachable;
  }
  return {absl::StatusCode::kFailedPrecondition, reason::kSourceProtocol,
          "look at the server's log"};
}

}  // namespace

absl::Status StatusOf(const ServerError& error) {
  std::string_view message = error.message;
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) {
    message.remove_suffix(1);
  }
  const bool no_state = error.sqlstate.empty();
  const Meaning meaning = no_state ? OfConnecting(message) : OfSqlState(error.sqlstate, message);
  ErrorDetails details;
  if (!no_state) details["sqlstate"] = std::string(error.sqlstate);
  return ErrorWithReason(meaning.code, meaning.reason,
                         no_state ? fmt::format("{}: {}; {}", error.doing, message, meaning.remedy)
                                  : fmt::format("{}: {} (SQLSTATE {}); {}", error.doing, message,
                                                error.sqlstate, meaning.remedy),
                         details);
}

}  // namespace tidemark::capture::postgres
