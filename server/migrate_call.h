// One FeedAdmin.MigrateFeed call: answered once the order is durable, or refused.
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
class MigrateCall final : public grpc::ServerUnaryReactor,
                          public std::enable_shared_from_this<MigrateCall> {
 public:
  static grpc::ServerUnaryReactor* Start(const v1::MigrateFeedRequest* request,
                                         const FeedDirectory& feeds);

  void OnCancel() override { Answer(absl::CancelledError("the client is gone")); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  MigrateCall() = default;

  // Reasons: REQUEST_INVALID, FEED_UNKNOWN, MIGRATION_REFUSED; the rest comes from capture.
  absl::Status Give(const v1::MigrateFeedRequest& request, const FeedDirectory& feeds);
  void Answer(const absl::Status& status);

  std::shared_ptr<MigrateCall> self_;
  std::atomic<bool> answered_{false};
};

}  // namespace tidemark
