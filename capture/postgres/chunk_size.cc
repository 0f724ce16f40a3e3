#include "capture/postgres/chunk_size.h"

namespace tidemark::capture::postgres {

void ChunkSize::Took(absl::Duration took, absl::Time now) {
  const bool somebody_waits = !behind_ && now - committed_ < kQuietFor;
  size_t rows = rows_ * 2;
  if (somebody_waits && took > kChunkTakesMax) {
    const auto fewer =
        static_cast<size_t>(static_cast<double>(rows_) * absl::FDivDuration(kChunkTakesMax, took));
    rows = std::max(fewer, std::min(rows, kChunkRowsFew));
  }
  rows_ = std::clamp(rows, kChunkRowsMin, behind_ ? kChunkRowsBehindMax : kChunkRowsMax);
}

}  // namespace tidemark::capture::postgres
