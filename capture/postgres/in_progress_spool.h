// Transactions that the server sends while they are in progress (pgoutput, protocol version 2),
// until it says how they end. Nothing bounds how much comes before that, so they are held outside
// of memory, as they came.
//
//   Begin ─ Add, AbortSubtransaction, … ─┬─ Next, until nothing comes ─ Committed
//                                        └─ RolledBack
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/postgres/scratch_file.h"

namespace tidemark::capture::postgres {

// What one source holds at most. Beyond it nothing is lost: the server keeps everything until it is
// confirmed, and sends it at its commit to who does not ask for more.
struct InProgressBounds {
  uint64_t bytes_max = uint64_t{64} << 30;
  // Each may have a file open.
  size_t transactions_max = 256;
  // Ids of subtransactions that were rolled back.
  size_t aborted_max = size_t{1} << 20;
  // What is left to others of the disk, to the store above all.
  uint64_t disk_free_bytes_min = uint64_t{1} << 30;
};

// Of one transaction: what is written, or read, at a time.
inline constexpr size_t kInProgressBufferBytes = 64 << 10;

// One per source. Thread rule: one thread at a time. Nothing of it outlives the process. Errors are
// RESOURCE_EXHAUSTED, for good, and refusal() says why: from then on it is of no use.
class InProgressSpool {
 public:
  struct Message {
    // Its place in the order in which all messages came.
    uint64_t sent = 0;
    std::string_view bytes;
  };

  // Files are made in `folder`, see ScratchFile::Open. Empty: there is none, which is a refusal.
  InProgressSpool(std::string folder, std::string name, const InProgressBounds& bounds = {});

  // Why it takes no more; empty: it does.
  const std::string& refusal() const { return refusal_; }

  bool Has(uint32_t xid) const { return held_.contains(xid); }
  // REQUIRES: !Has(xid).
  absl::Status Begin(uint32_t xid);
  // Below, REQUIRES: Has(xid).

  // Behind what came of it. REQUIRES: Next was not called.
  absl::Status Add(uint32_t xid, uint64_t sent, std::string_view bytes);
  // What came under this id is no part of it.
  absl::Status AbortSubtransaction(uint32_t xid, uint32_t subtransaction_xid);
  bool IsAborted(uint32_t xid, uint32_t subtransaction_xid) const;
  // What came, message by message; nothing at its end. Valid until the next call.
  absl::StatusOr<std::optional<Message>> Next(uint32_t xid);
  // It was handed over, or never was: what is held of it goes.
  void Committed(uint32_t xid);
  void RolledBack(uint32_t xid);

  // The connection is gone: all of them are sent again from their beginnings.
  void Clear();

  size_t transactions() const { return held_.size(); }
  uint64_t bytes() const { return bytes_; }
  // Since it was made.
  uint64_t committed() const { return committed_; }
  uint64_t rolled_back() const { return rolled_back_; }

 private:
  struct Held {
    // Whole messages, once more came than is held in memory.
    std::optional<ScratchFile> file;
    std::string rest;  // behind them
    uint64_t bytes = 0;
    absl::flat_hash_set<uint32_t> aborted;
    // When it is read: how far the file was, what was taken from it, or from the rest behind it,
    // and how much of that was given out.
    uint64_t file_at = 0;
    std::string taken;
    size_t taken_at = 0;
  };

  absl::Status Refuse(std::string because);
  absl::Status Flush(Held* held);
  // Takes so many bytes at least. False: there are none.
  absl::StatusOr<bool> Take(Held* held, size_t bytes);
  void Drop(uint32_t xid);

  const std::string folder_;
  const std::string name_;
  const InProgressBounds bounds_;
  std::string refusal_;
  absl::flat_hash_map<uint32_t, Held> held_;  // by the id of the whole transaction
  uint64_t bytes_ = 0;
  size_t aborted_ = 0;
  uint64_t committed_ = 0;
  uint64_t rolled_back_ = 0;
};

}  // namespace tidemark::capture::postgres
