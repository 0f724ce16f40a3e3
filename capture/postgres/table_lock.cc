#include "capture/postgres/table_lock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capture/postgres/partition_tree.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {
namespace {

// A prepared transaction holds its locks without a process. Who only waits for the table keeps
// others out as well.
constexpr char kHoldersSql[] =
    "{0} SELECT n.nspname, c.relname, l.granted, l.pid, x.gid, a.usename,"
    " date_trunc('second', a.xact_start) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
    "JOIN pg_namespace n ON n.oid ="
    " c.relnamespace LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_prepared_xacts x ON"
    " l.pid IS NULL AND EXISTS (SELECT FROM pg_locks k WHERE k.pid IS NULL AND k.locktype ="
    " 'transactionid' AND k.virtualtransaction = l.virtualtransaction AND k.transactionid ="
    " x.transaction) WHERE l.locktype = 'relation' AND l.database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database()) AND (l.relation IN ({1}) OR"
    " l.relation IN (SELECT part FROM parts)) AND l.pid IS DISTINCT FROM pg_backend_pid() AND"
    " l.mode IN ({2}) ORDER BY l.granted DESC, x.gid NULLS LAST, l.pid LIMIT 1";

std::string_view ModesInTheWay(LockUse use) {
  if (use == LockUse::kRead) return "'AccessExclusiveLock'";
  return "'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', "
         "'AccessExclusiveLock'";
}

}  // namespace

std::string BeginWaitingSql(absl::Duration lock_wait, std::string_view begin) {
  return fmt::format("{}; SET LOCAL lock_timeout = {}; ", begin,
                     absl::ToInt64Milliseconds(lock_wait));
}

bool IsLockTimeout(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const auto state = details.find("sqlstate");
  return state != details.end() && state->second == "55P03";
}

absl::StatusOr<std::string> WhoLocks(Connection* sql, std::span<const uint32_t> table_oids,
                                     LockUse use, absl::Time deadline) {
  const std::string oids = fmt::format("{}", fmt::join(table_oids, ","));
  absl::StatusOr<ResultRows> rows = sql->Query(
      fmt::format(kHoldersSql, WithParts(sql->server_version(), fmt::format("r.oid IN ({})", oids)),
                  oids, ModesInTheWay(use)),
      "looking who has a table locked", deadline);
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return std::string("waiting for the lock of a table, which was held just now");
  const std::string table = TableNameText(rows->Text(0, 0), rows->Text(0, 1));
  if (!rows->IsNull(0, 4)) {
    return fmt::format(
        "waiting for the lock of {}: prepared transaction '{}' holds it; COMMIT PREPARED or "
        "ROLLBACK PREPARED it",
        table, rows->Text(0, 4));
  }
  // Others' sessions are shown to some roles only.
  const std::string session = rows->IsNull(0, 6)
                                  ? ""
                                  : fmt::format(" (user {}, in a transaction since {})",
                                                rows->Text(0, 5), rows->Text(0, 6));
  return fmt::format("waiting for the lock of {}: pid {}{} {} it", table, rows->Text(0, 3), session,
                     rows->True(0, 2) ? "holds" : "wants");
}

}  // namespace tidemark::capture::postgres
