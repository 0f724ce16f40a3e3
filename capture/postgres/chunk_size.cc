#include "capture/postgres/chunk_size.h"

namespace tidemark::capture::postgres {

void ChunkSize::LeftAlone(absl::Duration waited) {
  rows_read_ = std::min(rows_read_ * 2, kRowsReadMax);
  behind_ = waited > kFenceWaitLong;
}

void ChunkSize::Took(absl::Duration took, absl::Time now) {
  const bool somebody_waits = !behind_ && now - committed_ < kQuietFor;
  told_due_ = now + took * (somebody_waits ? kRestWhereAwaited : kRestWhereQuiet);
  size_t rows = rows_told_ * 2;
  if (somebody_waits && took > kTellingTakesMax) {
    const auto fewer = static_cast<size_t>(static_cast<double>(rows_told_) *
                                           absl::FDivDuration(kTellingTakesMax, took));
    rows = std::max(fewer, std::min(rows, kRowsToldFew));
  }
  rows_told_ = std::min(rows, kChunkRowsMax);
}

}  // namespace tidemark::capture::postgres
