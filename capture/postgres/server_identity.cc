#include "capture/postgres/server_identity.h"

#include <fmt/format.h>

#include "capture/postgres/server_facts.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

// A function that may not be called fails even in a branch that is not taken.
constexpr char kBasicsSql[] =
    "SELECT current_database(), (SELECT oid FROM pg_database WHERE datname = current_database()),"
    " pg_is_in_recovery(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
    " has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'),"
    " has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')";

// The name of a file of the log begins with the timeline; of a standby, only the control file
// tells.
constexpr char kTimelineSql[] =
    "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint";
constexpr char kStandbyTimelineSql[] = "SELECT timeline_id FROM pg_control_checkpoint()";
constexpr char kSystemSql[] = "SELECT system_identifier FROM pg_control_system()";
constexpr char kDoing[] = "asking the server who it is";

absl::Status Replaced(const std::string& where, const std::string& what) {
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kSourceReplaced,
      fmt::format("{} is not what this feed was captured from: {}; connect to the server that it "
                  "was captured from, or drop the feed and begin anew",
                  where, what));
}

}  // namespace

absl::StatusOr<ServerIdentity> ReadServerIdentity(Connection* sql, absl::Time deadline) {
  ServerIdentity server;
  server.version = sql->server_version();
  if (server.version < kServerVersionMin) {
    return ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourceVersion,
                           fmt::format("the server is PostgreSQL {}.{}; 13 or newer is needed",
                                       server.version / 10000, server.version % 10000));
  }
  absl::StatusOr<ResultRows> basics = sql->Query(kBasicsSql, kDoing, deadline);
  if (!basics.ok()) return basics.status();
  server.identity.set_database(basics->Text(0, 0));
  server.identity.set_database_oid(static_cast<uint32_t>(basics->Number(0, 1)));
  server.in_recovery = basics->True(0, 2);
  server.clock = absl::FromUnixMicros(static_cast<int64_t>(basics->Number(0, 3)));
  if (basics->True(0, 4)) {
    absl::StatusOr<ResultRows> system = sql->Query(kSystemSql, kDoing, deadline);
    if (!system.ok()) return system.status();
    server.identity.set_system_identifier(system->Text(0, 0));
  }
  if (!server.in_recovery || basics->True(0, 5)) {
    absl::StatusOr<ResultRows> timeline =
        sql->Query(server.in_recovery ? kStandbyTimelineSql : kTimelineSql, kDoing, deadline);
    if (!timeline.ok()) return timeline.status();
    server.identity.set_timeline(static_cast<uint32_t>(timeline->Number(0, 0)));
  }
  return server;
}

absl::Status CheckSameServer(const v1::PostgresIdentity& stored,
                             const v1::PostgresIdentity& present, const std::string& where) {
  const auto differ = [](const auto& a, const auto& b, const auto& unknown) {
    return a != unknown && b != unknown && a != b;
  };
  const std::string none;
  if (differ(stored.system_identifier(), present.system_identifier(), none)) {
    return Replaced(where, fmt::format("its system identifier is {}, that of the feed is {}",
                                       present.system_identifier(), stored.system_identifier()));
  }
  if (differ(stored.database(), present.database(), none)) {
    return Replaced(where, fmt::format("its database is {}, that of the feed is {}",
                                       present.database(), stored.database()));
  }
  if (differ(stored.database_oid(), present.database_oid(), 0u)) {
    return Replaced(where,
                    fmt::format("database {} was made anew: its OID is {}, it was {}",
                                present.database(), present.database_oid(), stored.database_oid()));
  }
  return absl::OkStatus();
}

}  // namespace tidemark::capture::postgres
