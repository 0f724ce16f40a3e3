// What was ordered for a feed as a whole.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "server/order_queue.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

struct FeedOrder {
  enum class Kind { kDrop, kPause, kResume };

  Kind kind = Kind::kDrop;
  bool keep_slot = false;
  // What became of it (only a drop has something to say), or why it was refused.
  std::function<void(const absl::StatusOr<v1::DropFeedResponse>&)> done;
};

using FeedOrders = OrderQueue<FeedOrder>;

}  // namespace tidemark
