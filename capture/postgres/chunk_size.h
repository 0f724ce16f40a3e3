// How many rows of a table are read at a time beside the stream: as many as the commits of other
// tables do not notice, which wait while a chunk is told.
#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"
#include "capture/postgres/table_chunk.h"

namespace tidemark::capture::postgres {

// A chunk that waits longer for its fence shows a stream that is behind.
inline constexpr absl::Duration kFenceWaitLong = absl::Milliseconds(100);
// For as long as a chunk takes from its fence into the store, commits of other tables wait.
inline constexpr absl::Duration kChunkTakesMax = absl::Microseconds(700);
// Where nothing was committed for so long, there is nobody to wait.
inline constexpr absl::Duration kQuietFor = absl::Seconds(1);

// Pure; owned by one thread.
class ChunkSize {
 public:
  size_t rows() const { return rows_; }

  // A transaction was streamed.
  void Committed(absl::Time now) { committed_ = now; }
  // The rows were not left alone while they were read: fewer must be so for a shorter time.
  void NotLeftAlone() { rows_ = std::max(rows_ / 2, kChunkRowsMin); }
  void WaitedForFence(absl::Duration waited) { behind_ = waited > kFenceWaitLong; }
  // From its fence into the store.
  void Took(absl::Duration took, absl::Time now);

 private:
  size_t rows_ = kChunkRowsMax;
  bool behind_ = false;
  absl::Time committed_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::postgres
