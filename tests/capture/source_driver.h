// Plays the server's part for a source: opens it at the durable checkpoint, reads, keeps what came,
// confirms. What it keeps stands in for a store that never forgets what was confirmed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "capture/source.h"
#include "gtest/gtest.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/scratch_dir.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {

struct SeenChange {
  uint64_t sequence = 0;
  v1::TableSchema schema;
  v1::Change change;

  // "insert t id=1 a=x"; with "before(...)" and "key(...)" where they are set. NULL is null, absent
  // is -.
  std::string Text() const;
};

struct SeenTransaction {
  Position position;
  v1::CommitRecord record;
  std::vector<SeenChange> changes;
  // The runs as they came, for comparing byte by byte.
  std::vector<std::string> run_bytes;
  bool large = false;
};

std::string ValueText(const v1::Value& value);

class SourceDriver {
 public:
  explicit SourceDriver(v1::FeedConfig config);

  // Closes the source and makes a new one, as a restart of the server does. What was read and not
  // confirmed is forgotten.
  void Restart();
  absl::Status Open();
  // One Read, kept and (unless confirms is false) confirmed.
  absl::Status ReadOnce(std::chrono::milliseconds wait = std::chrono::milliseconds(100));
  // Opens if need be, and reads until `done`; errors that are retried open it again.
  ::testing::AssertionResult ReadUntil(
      const std::function<bool()>& done,
      std::chrono::milliseconds deadline = std::chrono::seconds(60));
  ::testing::AssertionResult ReadUntilTransactions(size_t count);
  ::testing::AssertionResult ReadUntilWhole();
  // Until the checkpoint is at or past the server's flush position of now.
  ::testing::AssertionResult ReadUntilCaughtUp(testing::LivePostgres& postgres);

  Source& source() { return *source_; }
  v1::FeedStatus Status() const;
  // Of the changes of all transactions, in order.
  std::vector<std::string> Changes() const;
  std::vector<std::string> SnapshotRows() const;
  uint64_t checkpoint_lsn() const;
  // Large transactions of which parts came, and neither their end nor that they never were.
  size_t open_large() const { return parts_.size(); }

  std::vector<SeenTransaction> transactions;
  std::vector<SeenChange> snapshot_rows;
  std::map<uint64_t, v1::TableSchema> schemas;
  std::optional<Position> whole;
  // The bound at which the source ended.
  std::optional<Position> finished;
  v1::Checkpoint checkpoint;
  std::vector<std::string> notices;
  absl::Status last_error;
  std::vector<std::string> errors;
  bool confirms = true;
  size_t large_parts = 0;
  // Of the sources that Restart makes.
  std::string scratch_folder;

 private:
  void Keep(CaptureBatch batch);
  std::vector<SeenChange> Decode(const std::vector<EncodedRun>& runs) const;

  v1::FeedConfig config_;
  testing::ScratchDir scratch_{"source"};
  std::unique_ptr<Source> source_;
  bool open_ = false;
  std::map<uint64_t, std::vector<EncodedRun>> parts_;
};

// A configuration that captures `tables` of the cluster's database "postgres".
v1::FeedConfig FeedOf(const testing::LivePostgres& postgres,
                      const std::vector<std::string>& tables = {});

}  // namespace tidemark::capture
