// What was ordered for a feed that a break stopped, by FeedAdmin.Recover.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "server/order_queue.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

struct RecoveryOrder {
  v1::RecoveryPolicy policy = v1::RECOVERY_POLICY_UNSPECIFIED;
  // OK once the order is durable, or why it was refused.
  std::function<void(const absl::Status&)> done;
};

using RecoveryOrders = OrderQueue<RecoveryOrder>;

}  // namespace tidemark
