// Where capture of one feed is to end: what was ordered, and what became of it. Between those who
// order (the configuration, FeedAdmin.StopAt) and capture, which alone carries it out.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/position.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark {

// Thread rule: Give, record and finished are safe from any thread and never wait; the rest belongs
// to the thread of the ingest loop.
class StopOrders {
 public:
  // Called once, by capture's thread or from within Give: the record once it is durable, or why
  // the order was refused. Must return at once.
  using Done = std::function<void(const absl::StatusOr<v1::StopRecord>&)>;
  struct Order {
    // As ParseStopOrder takes it.
    std::string requested;
    // Where that is, if the order names it with its generation (a cursor does); else `requested` is
    // of the generation in which it is carried out.
    std::optional<Position> bound = std::nullopt;
    bool by_configuration = false;
    Done done;
  };

  // `stored` is what the store holds. A configuration that says something else than when that was
  // written is a new order; else what was ordered since stands. `wake` brings capture here.
  StopOrders(std::string configured, v1::StopRecord stored, std::function<void()> wake);

  void Give(std::string requested, Done done) { Give(std::move(requested), {}, std::move(done)); }
  void Give(std::string requested, const std::optional<Position>& bound, Done done);
  // As it is in the store.
  v1::StopRecord record() const;
  bool finished() const { return record().finished(); }

  // The oldest order that was not carried out.
  std::optional<Order> Take();
  // It is in the store.
  void Set(const v1::StopRecord& record);
  // Capture ended, and takes no orders any more (until Reopen): those that wait and those that come
  // are refused.
  void Close(const absl::Status& why);
  void Reopen() { Close(absl::OkStatus()); }

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  v1::StopRecord record_;
  std::deque<Order> orders_;
  absl::Status closed_;
};

}  // namespace tidemark
