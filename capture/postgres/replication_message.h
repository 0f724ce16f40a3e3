// The frames of a replication connection in COPY BOTH mode (PostgreSQL documentation, "Streaming
// Replication Protocol"). All integers are big-endian; times are microseconds from 2000-01-01.
//
//   from the server
//     XLogData       'w' | int64 start | int64 end | int64 sent at | payload
//     keepalive      'k' | int64 end | int64 sent at | int8 reply requested
//   to the server
//     status update  'r' | int64 written | int64 flushed | int64 applied | int64 now
//                    | int8 reply requested
//
// XLogData.start and .end are both the LSN of the message inside (0/0 for Relation, E3): end is NOT
// how far the server is. Keepalive.end IS how far this walsender has decoded (K1).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "capture/postgres/lsn.h"

namespace tidemark::capture::postgres {

struct XLogData {
  Lsn start = 0;
  Lsn end = 0;
  int64_t sent_unix_us = 0;
  // Views the frame: one pgoutput message.
  std::string_view payload;
};

struct Keepalive {
  Lsn end = 0;
  int64_t sent_unix_us = 0;
  bool reply_requested = false;
};

using ReplicationMessage = std::variant<XLogData, Keepalive>;

// SOURCE_PROTOCOL for an unknown or cut frame. Pure.
absl::StatusOr<ReplicationMessage> ParseReplicationMessage(std::string_view frame);

struct StandbyStatus {
  // How far we have read: a fast shutdown of the server waits for this one.
  Lsn written = 0;
  // How far everything is durable here: the slot moves to this one.
  Lsn flushed = 0;
  Lsn applied = 0;
  int64_t now_unix_us = 0;
  bool reply_requested = false;
};

std::string EncodeStandbyStatus(const StandbyStatus& status);

}  // namespace tidemark::capture::postgres
