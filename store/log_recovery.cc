#include "store/log_recovery.h"

#include <algorithm>
#include <string>

#include "absl/time/clock.h"
#include "store/change_log.h"
#include "store/log_trim.h"

namespace tidemark::store {
namespace {

// No position lies behind it.
Position EndOfTime() {
  return Position::Of(UINT32_MAX, std::string(Position::kEngineBytes, '\xFF'), UINT32_MAX);
}

absl::StatusOr<LogTrim> ReadFloor(const Database& database, FeedId feed) {
  const auto floor = database.ReadMeta(FloorKey(feed));
  if (absl::IsNotFound(floor.status())) {
    return database.Damaged("the floor of a feed's log is missing");
  }
  if (!floor.ok()) return floor.status();
  const auto trim = LogTrim::Decode(*floor);
  if (!trim) return database.Damaged("the floor of a feed's log is unreadable");
  return *trim;
}

}  // namespace

absl::StatusOr<RowsMarker> ReadRowsMarker(const Database& database, FeedId feed) {
  std::string value;
  const rocksdb::Status read =
      database.rocks()->Get(rocksdb::ReadOptions(), database.rows(), RowsMarkerKey(feed), &value);
  if (!read.ok() && !read.IsNotFound()) return database.Error(read, "read the folded boundary");
  const auto marker = RowsMarker::Decode(value);
  if (!marker) return database.Damaged("the folded boundary of a feed is missing or unreadable");
  return *marker;
}

absl::StatusOr<RecoveredLog> RecoverLog(const Database& database, FeedId feed,
                                        const Position& checkpoint) {
  const auto floor = ReadFloor(database, feed);
  if (!floor.ok()) return floor.status();
  const auto sample = SampleAtOrBefore(database, feed, EndOfTime());
  if (!sample.ok()) return sample.status();
  Position head = *sample ? (*sample)->first : floor->floor;
  RecoveredLog log;
  log.sampler =
      LogSampler(*sample ? (*sample)->second
                         : LogSample{floor->commit_time_us, floor->log_bytes, floor->transactions});
  const int64_t clock_us = absl::ToUnixMicros(absl::Now());
  LogWalk walk(database, feed, head);
  LoggedTransaction transaction;
  for (;;) {
    const absl::StatusOr<bool> more = walk.Next(&transaction);
    if (!more.ok()) return more.status();
    if (!*more) break;
    head = transaction.position;
    log.sampler.Add(transaction.record.commit_time_us(), transaction.bytes, clock_us);
  }
  const auto marker = ReadRowsMarker(database, feed);
  if (!marker.ok()) return marker.status();
  FeedBoundaries& now = log.boundaries;
  now.snapshot_whole = true;
  // What RocksDB reads back from its WAL at opening, it has written to files before it is open.
  now.head = now.synced = std::max(head, checkpoint);
  now.log_bytes_written = now.log_bytes_synced = log.sampler.now().log_bytes;
  now.floor = floor->floor;
  now.floor_commit_time_us = floor->commit_time_us;
  now.log_bytes_trimmed = floor->log_bytes;
  now.log_transactions_written = log.sampler.now().transactions;
  now.log_transactions_trimmed = floor->transactions;
  now.folded = marker->folded;
  now.log_bytes_folded = LogBytesThrough(database, feed, now, now.folded);
  return log;
}

}  // namespace tidemark::store
