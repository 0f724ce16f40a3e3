#include "capture/postgres/table_desk.h"

#include <utility>

#include "proto/reason.h"

namespace tidemark::capture::postgres {

absl::Status TableDesk::Put(TableOrder order) {
  std::lock_guard lock(mutex_);
  if (!streaming_ || orders_.size() >= kTableOrdersMax) {
    return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                           streaming_
                               ? "too many orders for tables wait to be taken; try again"
                               : "the source is not streaming now, see its state in the status; "
                                 "try again when it is");
  }
  orders_.push_back(std::move(order));
  return absl::OkStatus();
}

std::deque<TableOrder> TableDesk::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

void TableDesk::SetStreaming(bool streaming) {
  std::lock_guard lock(mutex_);
  streaming_ = streaming;
  if (!streaming) orders_.clear();
}

void TableDesk::SetStatuses(std::vector<v1::TableStatus> statuses) {
  std::lock_guard lock(mutex_);
  statuses_ = std::move(statuses);
}

void TableDesk::Fill(v1::FeedStatus* status) const {
  std::lock_guard lock(mutex_);
  status->mutable_tables()->Assign(statuses_.begin(), statuses_.end());
}

}  // namespace tidemark::capture::postgres
