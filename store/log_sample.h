// Samples of the log, one for about every kSampleBytes of it: what age and size the log has up to a
// position, so that retention and lag are look-ups, not scans. Pure values; a sampler belongs to
// the writer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidemark::store {

inline constexpr uint64_t kSampleBytes = uint64_t{1} << 20;

// Taken behind one transaction.
struct LogSample {
  // Newest commit time of all transactions so far. A commit time ahead of this server's clock
  // counts as now, or one wrong clock at the source would keep the log for ever.
  int64_t newest_commit_time_us = 0;
  // Bytes of all transactions since the feed began.
  uint64_t log_bytes = 0;
  // Number of all transactions since the feed began, or since its store was raised to format 2.
  uint64_t transactions = 0;

  // commit time (8) | bytes (8) | transactions (8); format 1 ends behind the bytes.
  std::string Encode() const;
  static std::optional<LogSample> Decode(std::string_view value);
};

// Adds the transactions up and says when a sample is due. A plain value: the writer works on a copy
// and keeps it when the write succeeded.
class LogSampler {
 public:
  // Goes on behind `last`, the newest sample in the store.
  explicit LogSampler(const LogSample& last = {}) : now_(last), sampled_bytes_(last.log_bytes) {}

  // True when the transaction just added is to be sampled.
  bool Add(int64_t commit_time_us, uint64_t bytes, int64_t clock_us) {
    now_.newest_commit_time_us =
        std::max(now_.newest_commit_time_us, std::min(commit_time_us, clock_us));
    now_.log_bytes += bytes;
    ++now_.transactions;
    if (now_.log_bytes - sampled_bytes_ < kSampleBytes) return false;
    sampled_bytes_ = now_.log_bytes;
    return true;
  }

  const LogSample& now() const { return now_; }

 private:
  LogSample now_;
  uint64_t sampled_bytes_;
};

}  // namespace tidemark::store
