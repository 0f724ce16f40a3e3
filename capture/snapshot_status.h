// What `GetStatus` says of the initial reading of a source's tables. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark::capture {

// How far the reading of one table is.
struct SnapshotTableRows {
  std::string table;
  uint64_t done = 0;
  uint64_t estimated = 0;
  bool finished = false;
};

// A reading that began at `now`; forgets the one before.
void BeginSnapshotStatus(absl::Time now, v1::SnapshotStatus* status);
// `tables` as they stand at `now`, of a reading that began at `began`. It is finished once each of
// them is.
void FillSnapshotStatus(const std::vector<SnapshotTableRows>& tables, absl::Time began,
                        absl::Time now, v1::SnapshotStatus* status);

}  // namespace tidemark::capture
