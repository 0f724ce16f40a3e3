// One FeedAdmin.DropFeed call: answered once nothing of the feed is left in the store, or refused.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/feed.h"
#include "store/store.h"
#include "tidemark/v1/admin.pb.h"

namespace tidemark {

// Of a feed that the server runs. Thread rule: gRPC's and capture's threads; none of them waits.
// Owns itself until gRPC is done with it.
class DropCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<DropCall> {
 public:
  static grpc::ServerUnaryReactor* Start(const v1::DropFeedRequest& request,
                                         v1::DropFeedResponse* response, Feed& feed);

  // The order stands.
  void OnCancel() override { Answer(absl::CancelledError("the client is gone")); }
  void OnDone() override { const auto last = std::move(self_); }

 private:
  explicit DropCall(v1::DropFeedResponse* response) : response_(response) {}
  void Answer(const absl::StatusOr<v1::DropFeedResponse>& answer);

  v1::DropFeedResponse* const response_;
  std::shared_ptr<DropCall> self_;
  std::atomic<bool> answered_{false};
};

// The same of one that the store holds, or held, and the configuration does not name. Waits for the
// disk. DROP_REFUSED where something is left at its source; nullopt where there is no such feed.
absl::StatusOr<std::optional<v1::DropFeedResponse>> DropStored(store::Store& store,
                                                               const v1::DropFeedRequest& request);

}  // namespace tidemark
