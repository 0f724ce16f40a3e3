// What a polled source is doing, for those who ask from other threads.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_settings.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::poll {

// One poll, once it has ended.
struct PollTally {
  absl::Time began;
  absl::Duration took;
  uint64_t rows_read = 0;
  uint64_t changes = 0;
  PollMoment moment;
};

// Safe from any thread; nothing here waits for a source.
class PollStatusBoard {
 public:
  explicit PollStatusBoard(const PollSettings& settings);

  // The one place where the state changes. `detail` says the cause, or what is waited for.
  void SetState(v1::SourceState state, std::string detail);
  void SnapshotBegan(absl::Time now);
  // Rows that the initial reading has of each table, and their estimate; in their order.
  void SnapshotProgress(const std::vector<std::pair<uint64_t, uint64_t>>& rows, bool whole,
                        absl::Time now);
  void Polled(const PollTally& tally);
  // What is known of the tables, as it stands now.
  void SetTables(const v1::PollCheckpoint& checkpoint);

  void Fill(v1::FeedStatus* status, absl::Time now) const;

 private:
  const PollSettings settings_;
  mutable std::mutex mutex_;
  v1::SourceState state_ = v1::SOURCE_STATE_STARTING;
  std::string detail_;
  v1::PollStatus poll_;
  std::vector<v1::TableProblem> problems_;
  v1::SnapshotStatus snapshot_;
  absl::Time snapshot_began_ = absl::InfinitePast();
  absl::Time heard_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::poll
