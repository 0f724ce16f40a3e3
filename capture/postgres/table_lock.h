// The locks of tables: how long one is waited for, and who holds it. Thread rule: that of the
// session.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"

namespace tidemark::capture::postgres {

// For what is tried again soon: whatever else the session is for waits meanwhile.
inline constexpr absl::Duration kLockWait = absl::Milliseconds(300);
// For what an autovacuum keeps out: the server ends that one after deadlock_timeout, a second.
inline constexpr absl::Duration kLockWaitLong = absl::Seconds(2);

// "BEGIN…": a transaction in which no lock is waited for any longer.
std::string BeginWaitingSql(absl::Duration lock_wait, std::string_view begin = "BEGIN");

bool IsLockTimeout(const absl::Status& status);

enum class LockUse { kRead, kPublish };

// For people: who holds a lock on one of the tables, or on a partition of one, that is in the way
// of `use`, and how it ends. Waits for no lock of a table. REQUIRES: no transaction is open.
absl::StatusOr<std::string> WhoLocks(Connection* sql, std::span<const uint32_t> table_oids,
                                     LockUse use, absl::Time deadline);

}  // namespace tidemark::capture::postgres
