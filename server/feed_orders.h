// What was ordered for a feed as a whole: between FeedAdmin and capture, which alone carries it
// out.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: Give is safe from any thread and never waits; the rest belongs to the thread of the
// ingest loop.
class FeedOrders {
 public:
  enum class Kind { kDrop, kPause, kResume };
  // Called once, by capture's thread or from within Give: what became of it (only a drop has
  // something to say), or why it was refused. Must return at once.
  using Done = std::function<void(const absl::StatusOr<v1::DropFeedResponse>&)>;
  struct Order {
    Kind kind = Kind::kDrop;
    bool keep_slot = false;
    Done done;
  };

  // `wake` brings capture here.
  explicit FeedOrders(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Give(Order order);
  // The oldest order that was not carried out.
  std::optional<Order> Take();
  // What the oldest one orders.
  std::optional<Kind> next() const;
  // Capture ended, and takes no orders any more: those that wait and those that come are refused.
  void Close(const absl::Status& why);

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<Order> orders_;
  absl::Status closed_;
};

}  // namespace tidemark
