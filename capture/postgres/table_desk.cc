#include "capture/postgres/table_desk.h"

#include <utility>

#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

absl::Status Unavailable(std::string_view message) {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable, message);
}

absl::Status NotStreaming() {
  return Unavailable(
      "the source is not streaming now, see its state in the status; try again when it is");
}

}  // namespace

absl::Status TableDesk::Put(TableOrder order) {
  std::lock_guard lock(mutex_);
  if (!streaming_) return NotStreaming();
  if (orders_.size() >= kTableOrdersMax) {
    return Unavailable("too many orders for tables wait to be taken; try again");
  }
  orders_.push_back(std::move(order));
  return absl::OkStatus();
}

std::deque<TableOrder> TableDesk::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

absl::Status TableDesk::PutVerify(VerifyOrder order) {
  std::lock_guard lock(mutex_);
  if (!streaming_) return NotStreaming();
  const auto before = verifying_.lock();
  if (before != nullptr && before->Wanted()) {
    return ErrorWithReason(absl::StatusCode::kResourceExhausted, reason::kVerificationRunning,
                           "the feed is being verified already, and one verification of a feed "
                           "runs at a time; try again when it has ended");
  }
  verifying_ = order.sink;
  verify_ = std::move(order);
  return absl::OkStatus();
}

std::optional<VerifyOrder> TableDesk::TakeVerify() {
  std::lock_guard lock(mutex_);
  return std::exchange(verify_, std::nullopt);
}

void TableDesk::SetStreaming(bool streaming) {
  std::optional<VerifyOrder> lost;
  {
    std::lock_guard lock(mutex_);
    streaming_ = streaming;
    seen_ = absl::InfinitePast();
    if (streaming) return;
    orders_.clear();
    lost = std::exchange(verify_, std::nullopt);
  }
  if (lost) lost->sink->End(NotStreaming());
}

void TableDesk::SetStatuses(std::vector<v1::TableStatus> statuses, absl::Time seen) {
  std::lock_guard lock(mutex_);
  statuses_ = std::move(statuses);
  seen_ = seen;
}

void TableDesk::Fill(v1::FeedStatus* status) const {
  std::lock_guard lock(mutex_);
  status->mutable_tables()->Assign(statuses_.begin(), statuses_.end());
  if (seen_ == absl::InfinitePast()) return;
  const int64_t nanos = absl::ToUnixNanos(seen_);
  status->mutable_tables_seen()->set_seconds(nanos / 1'000'000'000);
  status->mutable_tables_seen()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
}

}  // namespace tidemark::capture::postgres
