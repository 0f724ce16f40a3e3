// Reads all rows of a table under one snapshot, in a session of its own and on a thread of its own,
// as the beginning of a transaction that empties the table and tells its rows. Writes nothing at
// the source; holds the table against changes of its definition meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/postgres/side_session.h"
#include "capture/postgres/table_chunk.h"
#include "capture/postgres/target.h"
#include "proto/encoded_transaction.h"

namespace tidemark::capture::postgres {

// How far the reading runs ahead of what was taken, plus one run.
inline constexpr size_t kWholeAheadBytesMax = 4 << 20;
// What Take gives at most, plus one run: for as long as that takes into the store, commits of other
// tables wait.
inline constexpr size_t kWholePieceBytesMax = 256 << 10;

// What a reading came to.
struct WholeRows {
  // Not empty: nothing was read, since this has to end first (TableChunk::waits_for).
  std::string waits_for;
  // What its changes are in all.
  v1::CommitRecord record;
  // As TableChunk::parts.
  std::vector<uint32_t> parts;
};

// Thread rule: one thread owns it. Destroying it ends the reading wherever it is.
class WholeReading {
 public:
  // Of `order`, the table and writers_before count. `wake` is called when there is news, from the
  // reading's thread.
  WholeReading(Target target, ChunkOrder order, std::function<void()> wake);
  ~WholeReading();
  WholeReading(const WholeReading&) = delete;
  WholeReading& operator=(const WholeReading&) = delete;

  // Something below has a value that it did not give yet.
  bool HasNews() const;
  // Once, before the first row: what BeginChunk says, unless it waits.
  std::optional<TableChunk> TakeBegun();
  // The next runs, in order; empty: none are there yet.
  std::vector<EncodedRun> Take();
  // Once, when every run was taken: the reading came to its end. Errors as of BeginChunk,
  // TABLE_UNREADABLE on a standby, and FAILED_PRECONDITION without a reason: the table has a key.
  std::optional<absl::StatusOr<WholeRows>> TakeEnd();
  // The truncate comes first.
  uint64_t rows_taken() const { return changes_taken_ == 0 ? 0 : changes_taken_ - 1; }

 private:
  // Between the two threads.
  class Handover;
  static absl::StatusOr<WholeRows> Read(Connection* sql, const ChunkOrder& order,
                                        Handover& handover);
  static absl::Status ReadUnderLock(Connection* sql, const ChunkOrder& order, TableChunk chunk,
                                    Handover& handover, WholeRows* rows);

  const std::shared_ptr<Handover> handover_;
  uint64_t changes_taken_ = 0;
  std::future<absl::StatusOr<WholeRows>> end_;
  SideSession session_;
};

}  // namespace tidemark::capture::postgres
