// Finds and does what retention decides (retention.h). Safe from any thread; one trim of a feed at
// a time.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "store/database.h"
#include "store/key_format.h"
#include "store/retention.h"

namespace tidemark::store {

// How far a log is trimmed.
struct LogTrim {
  // The last transaction that goes.
  Position floor;
  int64_t commit_time_us = 0;
  // Bytes and number of all transactions up to it, counted as in LogSample.
  uint64_t log_bytes = 0;
  uint64_t transactions = 0;

  // floor (20) | commit time (8) | bytes (8) | transactions (8); format 1 ends behind the bytes.
  std::string Encode() const;
  static std::optional<LogTrim> Decode(std::string_view value);
};

// The furthest trim that the facts allow; nullopt when there is nothing to trim. Steps over the
// samples, then over the transactions between two of them.
absl::StatusOr<std::optional<LogTrim>> FindTrim(const Database& database, FeedId feed,
                                                const LogTrim& now, const RetentionFacts& facts);

// Deletes the log up to `to`, with what it has in the spool, and writes the floor: in one batch,
// fsynced before any file goes.
absl::Status WriteTrim(Database* database, FeedId feed, const LogTrim& to);

}  // namespace tidemark::store
