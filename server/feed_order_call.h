// One call of FeedAdmin that orders something of a feed as a whole: answered once capture has
// carried it out, or refused it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "server/feed.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: gRPC's and capture's threads; none of them waits. Owns itself until gRPC is done
// with it.
class FeedOrderCall final : public grpc::ServerUnaryReactor,
                            public std::enable_shared_from_this<FeedOrderCall> {
 public:
  // `order` without done. `response`: of a drop, else null.
  static grpc::ServerUnaryReactor* Start(Feed& feed, FeedOrder order,
                                         v1::DropFeedResponse* response = nullptr);

  // The order stands.
  void OnCancel() override { Answer(absl::CancelledError("the client is gone")); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  explicit FeedOrderCall(v1::DropFeedResponse* response) : response_(response) {}
  void Answer(const absl::StatusOr<v1::DropFeedResponse>& answer);

  v1::DropFeedResponse* const response_;
  std::shared_ptr<FeedOrderCall> self_;
  std::atomic<bool> answered_{false};
};

}  // namespace tidemark
