// What the ingest loop of one feed last reported: its errors, its counts, its newest commit.
#pragma once

#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: written by the ingest loop, read from any thread; no call waits for I/O.
class CaptureState {
 public:
  // How the loop stands to its source.
  enum class Phase {
    // Open or being opened: the source itself knows the state.
    kRunning,
    // Waits to try again after an error that may pass.
    kWaiting,
    // Stopped by an error that needs a person.
    kFailed,
    // Ended because the server stops.
    kStopped,
  };

  // An error that is tried again for the `attempts`th time in a row, or one that is not.
  void Retrying(const absl::Status& error, uint32_t attempts, absl::Time now);
  void Failed(const absl::Status& error, absl::Time now);
  // The loop is at its source (again). The last error stays visible until something was captured.
  void Running();
  // The source answered: no error stands any more.
  void Healthy();
  void Stopped();

  // What one append made visible.
  void Count(uint64_t transactions, uint64_t changes, int64_t newest_commit_time_us);

  Phase phase() const;
  // Overrides what the source said of itself where the loop knows better, and adds the rest.
  void Fill(v1::FeedStatus* status) const;

 private:
  void SetError(const absl::Status& error, bool retried, uint32_t attempts, absl::Time now);

  mutable std::mutex mutex_;
  Phase phase_ = Phase::kRunning;
  bool has_error_ = false;
  v1::StatusError error_;
  uint64_t transactions_ = 0;
  uint64_t changes_ = 0;
  int64_t newest_commit_time_us_ = 0;
};

}  // namespace tidemark
