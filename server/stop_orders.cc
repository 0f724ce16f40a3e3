#include "server/stop_orders.h"

namespace tidemark {

StopOrders::StopOrders(std::string configured, v1::StopRecord stored, std::function<void()> wake)
    : wake_(std::move(wake)), record_(std::move(stored)) {
  if (configured == "never") configured.clear();
  if (configured == record_.configured()) return;
  orders_.push_back({.requested = std::move(configured), .by_configuration = true, .done = {}});
}

void StopOrders::Give(std::string requested, const std::optional<Position>& bound, Done done) {
  {
    std::lock_guard lock(mutex_);
    if (closed_.ok()) {
      orders_.push_back(
          {.requested = std::move(requested), .bound = bound, .done = std::move(done)});
      done = nullptr;
    }
  }
  if (done) return done(closed_);
  wake_();
}

v1::StopRecord StopOrders::record() const {
  std::lock_guard lock(mutex_);
  return record_;
}

std::optional<StopOrders::Order> StopOrders::Take() {
  std::lock_guard lock(mutex_);
  if (orders_.empty()) return std::nullopt;
  Order order = std::move(orders_.front());
  orders_.pop_front();
  return order;
}

void StopOrders::Set(const v1::StopRecord& record) {
  std::lock_guard lock(mutex_);
  record_ = record;
}

void StopOrders::Close(const absl::Status& why) {
  std::deque<Order> refused;
  {
    std::lock_guard lock(mutex_);
    closed_ = why;
    if (!why.ok()) refused.swap(orders_);
  }
  for (const Order& order : refused) {
    if (order.done) order.done(why);
  }
}

}  // namespace tidemark
