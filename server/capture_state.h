// What the ingest loop of one feed last reported: its errors, its counts, its newest commit.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/position.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// How the loop stands to its source.
enum class CapturePhase {
  // Not begun.
  kStarting,
  // The source is open, or being opened: it knows its own state.
  kRunning,
  // Waits to try again after an error that may pass.
  kWaiting,
  // Ended by an error that needs a person.
  kFailed,
  // Ended because the server stops.
  kStopped,
  // Ended at the bound that was set, and proved to be whole.
  kFinished,
  // Ended by order, until it is ordered to go on.
  kPaused,
};

// What one append made visible.
struct Appended {
  uint64_t transactions = 0;
  uint64_t changes = 0;
  // Newest transaction, where there is one.
  std::optional<Position> newest;
  int64_t newest_commit_time_us = 0;
};

// Thread rule: written by the ingest loop, read from any thread; no call waits for I/O.
class CaptureState {
 public:
  void Running();
  // `attempts` failures in a row so far.
  void Retrying(const absl::Status& error, uint32_t attempts, absl::Time now);
  void Failed(const absl::Status& error, absl::Time now);
  void Stopped();
  // `detail` says where.
  void Finished(std::string detail);
  // `detail` says how it goes on.
  void Paused(std::string detail);
  // Something was read: the last error is over, and no longer shown.
  void Healthy();
  void Count(const Appended& appended);

  CapturePhase phase() const;
  // Sets last_error and the counts, and source_state and detail where the loop knows better than
  // the source.
  void Fill(v1::FeedStatus* status) const;
  // Commit time of `position`, if that is the newest transaction captured since the start.
  std::optional<int64_t> CommitTimeUs(const Position& position) const;

 private:
  mutable std::mutex mutex_;
  CapturePhase phase_ = CapturePhase::kStarting;
  std::optional<v1::StatusError> error_;
  // Of kFinished and kPaused.
  std::string detail_;
  // Appended since the start; the two of the newest transaction are those of the last that had one.
  Appended total_;
};

}  // namespace tidemark
