// Reads the log of one feed forward, in the form in which it is sent.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/position.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::store {

// One run of one transaction. `record` is valid until the reader moves to the next transaction;
// `bytes` until the next call of Next.
struct StoredRun {
  Position position;
  const v1::CommitRecord* record = nullptr;
  uint64_t first_sequence = 0;
  uint32_t part = 0;
  // A serialized tidemark.v1.Run without first_sequence; see proto/encoded_transaction.h.
  std::string_view bytes;
  bool first_of_transaction = false;
  bool last_of_transaction = false;
};

// Owned by one thread at a time; must not outlive the store. Skips nothing: positions below the
// feed's floor fail with CURSOR_EXPIRED rather than jump over what was trimmed.
class LogReader {
 public:
  virtual ~LogReader() = default;

  // Moves to the next run; false at the head. After an error, every later call gives the same one.
  virtual absl::StatusOr<bool> Next(StoredRun* run) = 0;

  // Leaves the current transaction: the next run is the first of the transaction behind it.
  virtual void SkipTransaction() = 0;

  // Lets go of the memory and the files that a half-read log pins; Next goes on where it stood. To
  // be called whenever the owner stops reading for a while (a subscriber that does not drain).
  // After Next returned false nothing is pinned anyway.
  virtual void Rest() = 0;
};

}  // namespace tidemark::store
