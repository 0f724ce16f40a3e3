// How many rows of a table are read at a time beside the stream, and how many of those are told at
// a time: as many as the commits of other tables do not notice, which wait while rows are told.
#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"
#include "capture/postgres/table_chunk.h"

namespace tidemark::capture::postgres {

// Read at a time: each time costs the server the same few questions to its catalog.
inline constexpr size_t kRowsReadMax = 5'000;
inline constexpr size_t kRowsReadMin = 10;
// A chunk that waits longer for its fence shows a stream that is behind.
inline constexpr absl::Duration kFenceWaitLong = absl::Milliseconds(100);
// For as long as rows take from when they are told into the store, commits of other tables wait.
inline constexpr absl::Duration kTellingTakesMax = absl::Microseconds(700);
// Fewer than these are never told because of the time that they take.
inline constexpr size_t kRowsToldFew = 30;
// The next rows are told after so many times what the last ones took: the stream has its turn.
inline constexpr double kRestWhereAwaited = 2;
inline constexpr double kRestWhereQuiet = 0.1;
// Where nothing was committed for so long, there is nobody to wait.
inline constexpr absl::Duration kQuietFor = absl::Seconds(1);

// Pure; owned by one thread.
class ChunkSize {
 public:
  size_t rows_read() const { return behind_ ? kChunkRowsBehindMax : rows_read_; }
  size_t rows_told() const { return behind_ ? kChunkRowsBehindMax : rows_told_; }
  // When the next ones may be told.
  absl::Time told_due() const { return told_due_; }

  // A transaction was streamed.
  void Committed(absl::Time now) { committed_ = now; }
  // The rows were not left alone while they were read: fewer must be so for a shorter time.
  void NotLeftAlone() { rows_read_ = std::max(rows_read_ / 2, kRowsReadMin); }
  // They were, after having waited for their fence.
  void LeftAlone(absl::Duration waited);
  // From when they were told into the store.
  void Took(absl::Duration took, absl::Time now);

 private:
  size_t rows_read_ = kRowsReadMax;
  size_t rows_told_ = kChunkRowsMax;
  absl::Time told_due_ = absl::InfinitePast();
  bool behind_ = false;
  absl::Time committed_ = absl::InfinitePast();
};

}  // namespace tidemark::capture::postgres
