#include "capture/postgres/table_desk.h"

#include <fmt/format.h>

#include <utility>

#include "proto/reason.h"
#include "proto/timestamps.h"

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

void TableDesk::PutTables(std::vector<TablePattern> tables) {
  std::lock_guard lock(mutex_);
  tables_ = std::move(tables);
}

std::optional<std::vector<TablePattern>> TableDesk::TakeTables() {
  std::lock_guard lock(mutex_);
  return std::exchange(tables_, std::nullopt);
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
    look_failure_ = absl::OkStatus();
    looks_failed_ = 0;
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

void TableDesk::SetLookFailure(absl::Status failure, absl::Time now) {
  std::lock_guard lock(mutex_);
  looks_failed_ = failure.ok() ? 0 : looks_failed_ + 1;
  look_failed_ = now;
  look_failure_ = std::move(failure);
}

void TableDesk::Fill(v1::FeedStatus* status) const {
  std::lock_guard lock(mutex_);
  status->mutable_tables()->Assign(statuses_.begin(), statuses_.end());
  if (seen_ != absl::InfinitePast()) *status->mutable_tables_seen() = ToTimestamp(seen_);
  if (look_failure_.ok() || status->has_last_error()) return;
  v1::StatusError* error = status->mutable_last_error();
  error->set_reason(ReasonOf(look_failure_));
  error->set_message(fmt::format("tables that move without a message are not noticed: {}",
                                 std::string(look_failure_.message())));
  *error->mutable_at() = ToTimestamp(look_failed_);
  error->set_retried(true);
  error->set_attempts(looks_failed_);
}

}  // namespace tidemark::capture::postgres
