// What was ordered for a feed: between the calls that give orders and capture, which alone carries
// them out.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"

namespace tidemark {

// An order has `done`, which takes why it was refused, as an absl::Status; it is called once, by
// capture's thread or from within Give, and must return at once. Thread rule: Give is safe from any
// thread and never waits; the rest belongs to the thread of the ingest loop.
template <class Order>
class OrderQueue {
 public:
  // `wake` brings capture here.
  explicit OrderQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Give(Order order) {
    absl::Status closed;
    {
      std::lock_guard lock(mutex_);
      closed = closed_;
      if (closed.ok()) orders_.push_back(std::move(order));
    }
    if (!closed.ok()) return order.done(closed);
    wake_();
  }

  // The oldest order that was not answered.
  std::optional<Order> Take() {
    std::lock_guard lock(mutex_);
    if (orders_.empty()) return std::nullopt;
    Order order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

  bool empty() const {
    std::lock_guard lock(mutex_);
    return orders_.empty();
  }
  // Whether the oldest one is so.
  template <class Is>
  bool NextIs(const Is& is) const {
    std::lock_guard lock(mutex_);
    return !orders_.empty() && is(orders_.front());
  }

  // Capture ended, and takes no orders any more (until Reopen): those that wait and those that come
  // are refused.
  void Close(const absl::Status& why) {
    std::deque<Order> refused;
    {
      std::lock_guard lock(mutex_);
      closed_ = why;
      refused.swap(orders_);
    }
    for (const Order& order : refused) order.done(why);
  }
  void Reopen() { Close(absl::OkStatus()); }

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<Order> orders_;
  absl::Status closed_;
};

}  // namespace tidemark
