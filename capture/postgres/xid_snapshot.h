// Which transactions a snapshot of PostgreSQL sees. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tidemark::capture::postgres {

// The whole of a 32-bit transaction id that lies less than 2^31 ids from `near`.
uint64_t WholeXid(uint32_t xid, uint64_t near);

class XidSnapshot {
 public:
  // The text of pg_current_snapshot(): xmin:xmax:xip,…. SOURCE_PROTOCOL when it is something else.
  static absl::StatusOr<XidSnapshot> Parse(std::string_view text);
  std::string Text() const;

  // Whether what the transaction did is seen, if it committed. `xid` is the 32-bit id that the
  // stream gives, of a transaction that lies less than 2^31 ids from the snapshot.
  bool Sees(uint32_t xid) const;
  // What it sees, without anything from `xmax` on.
  XidSnapshot EndingAt(uint64_t xmax) const;

  // Every transaction below it has ended.
  uint64_t xmin() const { return xmin_; }
  // No transaction from it on is seen.
  uint64_t xmax() const { return xmax_; }
  // Those below it that have not ended, rising.
  const std::vector<uint64_t>& in_progress() const { return in_progress_; }

 private:
  uint64_t xmin_ = 0;
  uint64_t xmax_ = 0;
  std::vector<uint64_t> in_progress_;
};

}  // namespace tidemark::capture::postgres
