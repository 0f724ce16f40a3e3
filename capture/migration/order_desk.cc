#include "capture/migration/order_desk.h"

#include <utility>

namespace tidemark::capture {

void OrderDesk::Put(MigrationOrder order) {
  absl::Status closed;
  {
    std::lock_guard lock(mutex_);
    closed = closed_;
    if (closed.ok()) orders_.push_back(std::move(order));
  }
  // Moved from where the desk is open.
  if (!closed.ok()) order.done(closed);
}

std::optional<MigrationOrder> OrderDesk::Take() {
  std::lock_guard lock(mutex_);
  if (orders_.empty()) return std::nullopt;
  MigrationOrder order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

void OrderDesk::Open() {
  std::lock_guard lock(mutex_);
  closed_ = absl::OkStatus();
}

void OrderDesk::Close(const absl::Status& why) {
  std::deque<MigrationOrder> refused;
  {
    std::lock_guard lock(mutex_);
    closed_ = why;
    refused.swap(orders_);
  }
  for (const MigrationOrder& order : refused) order.done(why);
}

}  // namespace tidemark::capture
