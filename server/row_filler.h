// The step between reading and appending: what a source leaves out of a change is filled from the
// row as it stands before it, which is found, in this order, among the earlier changes of the
// transaction, those of the batch, the tail of the log that is not folded yet, and the rows. What
// is not found there stays absent.
//
// A transaction without gaps costs nothing. Memory: one batch (limits::filled_bytes_max beyond what
// the source gave) and the index of its keys; what grows beyond goes to the spool, keys too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/encoded_transaction.h"
#include "server/run_filler.h"
#include "store/change_index.h"
#include "store/feed_store.h"
#include "store/row_keys.h"

namespace tidemark {

// Belongs to the thread of the ingest loop; the store is lent. After an error only Reset may
// follow.
class RowFiller final : private store::NumberedRuns {
 public:
  // `stopping`: a large transaction is given up half-filled, with CANCELLED.
  RowFiller(store::FeedStore& store, WantsBefore wants_before, std::function<bool()> stopping);

  // Adds a transaction to what the next append makes visible. `next` holds all of the batch before
  // it.
  absl::Status Add(EncodedTransaction transaction, store::AppendBatch* next);
  // The same for a large one, whose parts are in the spool: with gaps, it is written anew under
  // another handle, and the parts are gone. `parts` of LargePart are shown by SawParts.
  absl::Status AddSpooled(store::SpooledCommit commit, store::AppendBatch* next);
  void SawParts(uint64_t handle, const std::vector<EncodedRun>& runs);
  void Aborted(uint64_t handle) { with_gaps_.erase(handle); }

  // The batch loses rows of a table (AppendBatch::lost): nothing of it is filled from here on.
  void LostTable() { keys_.Forget(); }

  // The batch is appended.
  void Appended();
  // The batch is given up, and every large transaction under way with it.
  absl::Status Reset();

 private:
  // Where a run of the batch is: in the spool under `handle`, else in `transaction` of the batch.
  struct RunAt {
    uint64_t handle = 0;
    uint64_t first_sequence = 0;
    size_t transaction = 0;
    size_t index = 0;
  };

  absl::StatusOr<std::string_view> Bytes(uint32_t number, uint32_t part) override;
  std::pair<Position, uint64_t> PlaceOf(uint32_t number) const override;

  absl::Status Begin(store::AppendBatch* next, bool spooled);
  void Finish(const Position& position, v1::CommitRecord record);
  absl::Status CatchUp();
  absl::Status IndexSpooled(uint64_t handle);
  absl::Status IndexRun(const RunAt& at, std::string_view bytes);
  absl::Status FillSpooled(store::SpoolReader* reader);
  absl::Status Emit(EncodedRun run);
  absl::Status ToSpool();
  absl::StatusOr<std::optional<std::string>> RowBefore(const store::KeyedTable& table,
                                                       const std::string& key);

  store::FeedStore& store_;
  const std::function<bool()> stopping_;
  store::RowKeys keys_;
  RunFiller run_filler_;
  // Large transactions that need to be filled at their commit.
  std::set<uint64_t> with_gaps_;

  // The batch.
  store::AppendBatch* next_ = nullptr;
  store::ChangeIndex index_{&keys_, this};
  std::vector<RunAt> runs_;
  size_t transactions_indexed_ = 0;
  size_t spooled_indexed_ = 0;
  uint64_t filled_bytes_ = 0;  // in memory
  std::set<uint64_t> handles_;
  uint64_t next_handle_;

  // The transaction that is being filled: its runs so far, or where they are in the spool.
  std::vector<EncodedRun> filled_;
  uint64_t handle_ = 0;
  uint64_t bytes_ = 0;
  size_t first_run_ = 0;
  // What Bytes read last.
  std::string read_;
};

}  // namespace tidemark
