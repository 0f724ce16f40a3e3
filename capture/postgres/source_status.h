// What a PostgreSQL source is doing, for those who ask from other threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/snapshot_reader.h"
#include "capture/postgres/wal_rate.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture::postgres {

// Safe from any thread; nothing here waits for a source.
class SourceStatus {
 public:
  SourceStatus(std::string slot, std::string publication);

  // The one place where the state changes. `detail` says the cause, or what is waited for.
  void SetState(v1::SourceState state, std::string detail);
  v1::SourceState state() const;

  void SnapshotBegan(const std::vector<SnapshotTable>& tables, absl::Time now);
  void SnapshotProgress(const std::vector<SnapshotTable>& tables, absl::Time now);

  // The source was heard of: how far everything is proved, how far the server is known to be.
  void Progress(Lsn proved, Lsn server, int64_t newest_commit_us, absl::Time now);
  void Slot(const SlotFacts& slot, absl::Time now);
  // Capture begins behind `start`, or goes on there: what was heard before is of a history that
  // broke off.
  void GoesOnBehind(Lsn start);

  void Fill(v1::FeedStatus* status, absl::Time now) const;

 private:
  mutable std::mutex mutex_;
  v1::SourceState state_ = v1::SOURCE_STATE_STARTING;
  std::string detail_;
  v1::SlotStatus slot_;
  WalRate wal_rate_;
  v1::SnapshotStatus snapshot_;
  absl::Time snapshot_started_ = absl::InfinitePast();
  absl::Time snapshot_seen_ = absl::InfinitePast();
  Lsn proved_ = 0;
  Lsn server_ = 0;
  int64_t newest_commit_us_ = 0;
  absl::Time heard_ = absl::InfinitePast();
  absl::Time caught_up_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::postgres
