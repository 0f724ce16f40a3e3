// What a server is and how it is set, as far as capture depends on it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/timeline.h"

namespace tidemark::capture::postgres {

inline constexpr int kServerVersionMin = 130000;
// Since then transactions are sent while they are in progress, to who asks for it.
inline constexpr int kInProgressVersionMin = 140000;
// Since then a standby decodes its log.
inline constexpr int kStandbyVersionMin = 160000;
// Since then a standby may keep a copy of a primary's slot.
inline constexpr int kSyncedSlotsVersionMin = 170000;

struct ServerFacts {
  std::string system_identifier;
  uint32_t timeline = 0;
  // How it came to it; only where that was asked for.
  TimelineHistory history;
  std::string database;
  int version = 0;
  // Empty: PostgreSQL itself. See fork.h.
  std::string fork;
  std::string wal_level;
  // A standby.
  bool in_recovery = false;
  // Of a standby: it receives the primary's log, and so has replayed all that it had itself.
  bool receiving = false;
  // How far the log is flushed; never the insert position, which an idle server may not reach (K7).
  // On a standby, how far it is replayed: nothing behind that is decoded.
  Lsn flush_lsn = 0;
  // Zero: the server never gives a silent session up.
  absl::Duration wal_sender_timeout;
};

// `replication` tells the identity (IDENTIFY_SYSTEM), `sql` the rest.
absl::StatusOr<ServerFacts> ReadServerFacts(Connection* replication, Connection* sql,
                                            absl::Time deadline);

// The timeline on which the server writes; of a standby, which it replays.
absl::StatusOr<uint32_t> ReadTimeline(Connection* replication, absl::Time deadline);

// How the server came to `timeline`, its present one. Nothing where it does not know any more. The
// session is of no use afterwards then.
absl::StatusOr<TimelineHistory> ReadTimelineHistory(Connection* replication, uint32_t timeline,
                                                    absl::Time deadline);

// How far the log is flushed (on a standby: replayed) now.
absl::StatusOr<Lsn> ReadFlushed(Connection* sql, absl::Time deadline);

// Whether capture works there at all: SOURCE_VERSION_UNSUPPORTED, SOURCE_SETTING. Pure.
absl::Status CheckServer(const ServerFacts& facts);

}  // namespace tidemark::capture::postgres
