// One FeedAdmin.Recover call: answered once the order is durable, or refused.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "server/feed.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Thread rule: gRPC's and capture's threads; none of them waits. Owns itself until gRPC is done
// with it.
class RecoverCall final : public grpc::ServerUnaryReactor,
                          public std::enable_shared_from_this<RecoverCall> {
 public:
  static grpc::ServerUnaryReactor* Start(const v1::RecoverRequest* request,
                                         const FeedDirectory& feeds);

  void OnCancel() override { Answer(absl::CancelledError("the client is gone")); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  RecoverCall() = default;

  // Reasons: REQUEST_INVALID, FEED_UNKNOWN; the rest comes from capture.
  absl::Status Give(const v1::RecoverRequest& request, const FeedDirectory& feeds);
  void Answer(const absl::Status& status);

  std::shared_ptr<RecoverCall> self_;
  std::atomic<bool> answered_{false};
};

}  // namespace tidemark
