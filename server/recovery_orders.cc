#include "server/recovery_orders.h"

#include <utility>

namespace tidemark {

void RecoveryOrders::Give(Order order) {
  absl::Status closed;
  {
    std::lock_guard lock(mutex_);
    closed = closed_;
    if (closed.ok()) orders_.push_back(std::move(order));
  }
  if (!closed.ok()) return order.done(closed);
  wake_();
}

std::optional<RecoveryOrders::Order> RecoveryOrders::Take() {
  std::lock_guard lock(mutex_);
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

void RecoveryOrders::Close(const absl::Status& why) {
  std::deque<Order> refused;
  {
    std::lock_guard lock(mutex_);
    closed_ = why;
    refused.swap(orders_);
  }
  for (const Order& order : refused) order.done(why);
}

}  // namespace tidemark
