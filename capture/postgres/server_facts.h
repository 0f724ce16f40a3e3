// What a server is and how it is set, as far as capture depends on it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

inline constexpr int kServerVersionMin = 130000;

struct ServerFacts {
  std::string system_identifier;
  uint32_t timeline = 0;
  std::string database;
  int version = 0;
  // Empty: PostgreSQL itself. See fork.h.
  std::string fork;
  std::string wal_level;
  bool in_recovery = false;
  // How far the log is flushed; never the insert position, which an idle server may not reach (K7).
  Lsn flush_lsn = 0;
  // Zero: the server never gives a silent session up.
  absl::Duration wal_sender_timeout;
};

// `replication` tells the identity (IDENTIFY_SYSTEM), `sql` the rest.
absl::StatusOr<ServerFacts> ReadServerFacts(Connection* replication, Connection* sql,
                                            absl::Time deadline);

// How far the log is flushed (on a standby: replayed) now.
absl::StatusOr<Lsn> ReadFlushed(Connection* sql, absl::Time deadline);

// Whether capture works there at all: SOURCE_VERSION_UNSUPPORTED, SOURCE_SETTING. Pure.
absl::Status CheckServer(const ServerFacts& facts);

}  // namespace tidemark::capture::postgres
