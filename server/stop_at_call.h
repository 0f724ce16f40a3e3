// One StopAt call: hands the order to capture, and answers once it is stored.
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
class StopAtCall final : public grpc::ServerUnaryReactor,
                         public std::enable_shared_from_this<StopAtCall> {
 public:
  static grpc::ServerUnaryReactor* Start(const v1::StopAtRequest* request,
                                         v1::StopAtResponse* response, const FeedDirectory& feeds);

  void OnCancel() override { Answer(absl::CancelledError("the client is gone"), {}); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  explicit StopAtCall(v1::StopAtResponse* response) : response_(response) {}

  absl::Status Give(const v1::StopAtRequest& request, const FeedDirectory& feeds);
  void Answer(const absl::Status& status, const v1::StopAtResponse& response);

  v1::StopAtResponse* const response_;
  std::shared_ptr<StopAtCall> self_;
  std::atomic<bool> answered_{false};
};

}  // namespace tidemark
