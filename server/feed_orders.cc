#include "server/feed_orders.h"

#include <utility>

namespace tidemark {

void FeedOrders::Give(Order order) {
  absl::Status closed;
  {
    std::lock_guard lock(mutex_);
    closed = closed_;
    if (closed.ok()) orders_.push_back(std::move(order));
  }
  if (!closed.ok()) return order.done(closed);
  wake_();
}

std::optional<FeedOrders::Order> FeedOrders::Take() {
  std::lock_guard lock(mutex_);
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

std::optional<FeedOrders::Kind> FeedOrders::next() const {
  std::lock_guard lock(mutex_);
  return orders_.empty() ? std::nullopt : std::optional(orders_.front().kind);
}

void FeedOrders::Close(const absl::Status& why) {
  std::deque<Order> refused;
  {
    std::lock_guard lock(mutex_);
    closed_ = why;
    refused.swap(orders_);
  }
  for (const Order& order : refused) order.done(why);
}

}  // namespace tidemark
