// What a changelog source is doing, for those who ask from other threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "capture/changelog/settings.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture::changelog {

// How a pull ended.
struct PullReport {
  std::string snapshot;
  uint64_t highest_seq = 0;
  uint64_t rows_read = 0;
  absl::Time began;
  // Of the strategy xid_watermark: below it everything was told; who is there, and how many rows
  // wait for it.
  std::optional<uint64_t> watermark;
  std::string held_by;
  uint64_t waiting_rows = 0;
};

// Safe from any thread; nothing here waits for a source.
class Status {
 public:
  // The one place where the state changes. `detail` says the cause, or what is waited for.
  void SetState(v1::SourceState state, std::string detail);
  void Reads(const Settings& settings);
  // A pull that tells something began.
  void PullBegan(absl::Time now);
  void PullEnded(const PullReport& report, absl::Time now);
  void Trimmed(uint64_t rows);

  void Fill(v1::FeedStatus* status, absl::Time now) const;

 private:
  mutable std::mutex mutex_;
  v1::SourceState state_ = v1::SOURCE_STATE_STARTING;
  std::string detail_;
  v1::ChangelogStatus changelog_;
  // Everything that was there then was told.
  absl::Time caught_up_ = absl::InfinitePast();
  absl::Time heard_ = absl::InfinitePast();
  bool pulling_ = false;
};

}  // namespace tidemark::capture::changelog
