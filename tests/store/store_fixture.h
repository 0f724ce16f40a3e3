// A store with one feed in a scratch folder, and short ways to write transactions and to read them
// back as text. Failures of the store fail the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"
#include "tests/store/sample_log.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::store {

class StoreFixture : public ::testing::Test {
 protected:
  static constexpr char kFeedName[] = "orders";
  // Boundary of the initial snapshot.
  static constexpr uint64_t kSnapshotAt = 100;

  StoreFixture();

  // The store and its feed; closes first what was open.
  void Open();
  void Close();
  // Opens and makes an empty snapshot whole.
  void OpenWithLog();

  static Position At(uint64_t engine) { return Position::Of(1, engine); }
  v1::Checkpoint CheckpointAt(uint64_t engine) const;

  EncodedRun Run(uint64_t first_sequence, const std::vector<v1::Change>& changes) const;
  // Inserts of rows with these keys, `per_run` of them in a run.
  EncodedTransaction Inserts(uint64_t position, const std::vector<int64_t>& ids,
                             size_t per_run = 1000) const;
  // One insert of about `bytes` bytes.
  EncodedTransaction Large(uint64_t position, size_t bytes) const;
  static void SetCommitTime(EncodedTransaction* transaction, absl::Time time);

  // With a checkpoint at the last position.
  absl::Status TryAppend(std::vector<EncodedTransaction> transactions);
  void Append(std::vector<EncodedTransaction> transactions);
  void Sync();
  void Fold();

  // One line a run: "position/sequence+part: bytes of the run" with '[' before the first and ']'
  // behind the last of a transaction; an error is the last line, as its reason.
  std::vector<std::string> ReadLog(uint64_t after) const;
  static std::vector<std::string> Drain(LogReader* reader);
  // Engine positions of the transactions that a reader gives.
  std::vector<uint64_t> Positions(uint64_t after) const;
  // The boundary, then "id@position" of every row.
  std::vector<std::string> ReadRows() const;

  testing::ScratchDir scratch_;
  StoreOptions options_;
  v1::TableSchema schema_ = SampleSchema("t", {"name"});
  std::unique_ptr<Store> store_;
  FeedStore* feed_ = nullptr;
};

}  // namespace tidemark::store
