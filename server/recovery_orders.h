// What was ordered for a feed that a break stopped: between FeedAdmin.Recover and capture, which
// alone carries it out.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: Give is safe from any thread and never waits; the rest belongs to the thread of the
// ingest loop.
class RecoveryOrders {
 public:
  // Called once, by capture's thread or from within Give: OK once the order is durable, or why it
  // was refused. Must return at once.
  using Done = std::function<void(const absl::Status&)>;
  struct Order {
    v1::RecoveryPolicy policy = v1::RECOVERY_POLICY_UNSPECIFIED;
    Done done;
  };

  // `wake` brings capture here.
  explicit RecoveryOrders(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Give(Order order);
  // The oldest order that was not answered.
  std::optional<Order> Take();
  // Capture ended, and takes no orders any more (until Reopen): those that wait and those that come
  // are refused.
  void Close(const absl::Status& why);
  void Reopen() { Close(absl::OkStatus()); }

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::deque<Order> orders_;
  absl::Status closed_;
};

}  // namespace tidemark
