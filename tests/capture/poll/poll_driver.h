// Plays the server's part for a polled source, and keeps what it told as known rows.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "capture/poll/poll_source.h"
#include "gtest/gtest.h"
#include "tests/capture/poll/remembered_rows.h"
#include "tests/capture/source_driver.h"
#include "tests/testing/live_postgres.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {

// What one PolledTable says, in short.
struct PolledOptions {
  std::string table = "public.t";
  std::string cursor = "at";
  std::vector<std::string> key;
  std::string null_cursor;
  std::string deleted;
  std::string tombstones;
};

// Polled each 10 ms, with an overlap of a minute, as superuser.
v1::FeedConfig PolledFeedOf(const testing::LivePostgres& postgres,
                            const std::vector<PolledOptions>& tables = {PolledOptions()});

class PollDriver {
 public:
  explicit PollDriver(v1::FeedConfig config);

  // A new source that goes on from what was handed over with a checkpoint.
  void Restart();
  absl::Status Open();
  absl::Status ReadOnce();
  // Errors end it, unless they are retried.
  ::testing::AssertionResult ReadUntil(const std::function<bool()>& done);
  ::testing::AssertionResult ReadUntilWhole();
  // Until `count` polls that have not begun yet have ended, so that all that was committed and
  // stamped before the call was seen, and anything else that came with it.
  ::testing::AssertionResult Poll(int count = 1);
  // Until an error that needs a person.
  ::testing::AssertionResult ReadUntilFailed();

  std::vector<std::string> Changes() const;
  // Changes() since it was called last.
  std::vector<std::string> NewChanges();
  std::vector<std::string> SnapshotRows() const;
  v1::FeedStatus Status() const;
  v1::PolledTableStatus Table(int i = 0) const { return Status().poll().tables(i); }
  PollSource& source() { return *source_; }

  v1::FeedConfig config;
  RememberedRows rows;
  std::vector<SeenTransaction> transactions;
  std::vector<SeenChange> snapshot_rows;
  std::map<uint64_t, v1::TableSchema> schemas;
  std::optional<Position> whole;
  std::optional<Position> finished;
  std::optional<v1::GapRecord> gap;
  v1::Checkpoint checkpoint;
  uint32_t generation = 1;
  std::vector<std::string> notices;
  absl::Status last_error;
  size_t large_parts = 0;
  size_t made_batches = 0;

 private:
  void Keep(CaptureBatch batch);
  std::vector<SeenChange> Decode(const std::vector<EncodedRun>& runs) const;
  void Add(const Position& position, v1::CommitRecord record, const std::vector<EncodedRun>& runs,
           bool large);

  std::unique_ptr<PollSource> source_;
  bool open_ = false;
  size_t told_ = 0;
  std::map<uint64_t, std::vector<EncodedRun>> parts_;
};

}  // namespace tidemark::capture
