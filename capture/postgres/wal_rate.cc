#include "capture/postgres/wal_rate.h"

namespace tidemark::capture::postgres {

void WalRate::Look(Lsn end, absl::Time now) {
  if (!looks_.empty() && (end < looks_.back().end || now <= looks_.back().at)) looks_.clear();
  looks_.push_back({end, now});
  while (looks_.size() > kWalRateLooksMax ||
         (looks_.size() > 2 && now - looks_.front().at > kWalRatePeriod)) {
    looks_.pop_front();
  }
}

std::optional<absl::Duration> WalRate::TimeFor(uint64_t bytes) const {
  if (looks_.size() < 2 || looks_.back().end == looks_.front().end) return std::nullopt;
  const absl::Duration passed = looks_.back().at - looks_.front().at;
  const auto grown = static_cast<double>(looks_.back().end - looks_.front().end);
  return passed * (static_cast<double>(bytes) / grown);
}

}  // namespace tidemark::capture::postgres
