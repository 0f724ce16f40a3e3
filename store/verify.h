// Verifies a store as it lies on the disk, without writing to it. A server may run on it meanwhile;
// files that it removes under the reading then show as an error of reading, not as a finding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/finding.h"
#include "store/store.h"

namespace tidemark::store {

struct VerifyOptions {
  StoreOptions store;
  // Empty: all feeds.
  std::optional<std::string> feed;
  // Reads every block of every file and compares it with its checksum.
  bool checksums = true;
};

struct VerifySummary {
  uint64_t feeds = 0;
  uint64_t transactions = 0;
  uint64_t changes = 0;
  uint64_t rows = 0;
  uint64_t findings = 0;
  // What was not checked, and why.
  std::vector<std::string> notes;
};

// Checks, by feed (finding.h names them):
//   - every block against its checksum, every record of the write-ahead log against its own;
//   - (position, sequence) rises strictly over everything stored; two entries that are not in order
//     are named both (R17);
//   - every commit record against its runs: changes, bytes, schemas; every value in parts is whole;
//   - references to the spool, both ways;
//   - schemas: present, and named by the hash of their content;
//   - checkpoint at or behind the last transaction; floor before the first; fold between them;
//   - every row for itself, and all rows against the fold of the log where that reaches back.
// Fails only where the store cannot be opened; whatever is wrong inside is reported.
absl::StatusOr<VerifySummary> VerifyStore(const VerifyOptions& options,
                                          const ReportFinding& report);

}  // namespace tidemark::store
