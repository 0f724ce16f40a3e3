#include "server/drop_call.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/owned_objects.h"
#include "server/error_status.h"
#include "server/feed_drop.h"

namespace tidemark {
namespace {

v1::DropFeedResponse Left(const std::vector<std::string>& owned) {
  v1::DropFeedResponse response;
  response.mutable_left()->Assign(owned.begin(), owned.end());
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* DropCall::Start(const v1::DropFeedRequest& request,
                                          v1::DropFeedResponse* response, Feed& feed) {
  std::shared_ptr<DropCall> call(new DropCall(response));
  call->self_ = call;
  feed.orders().Give({.kind = FeedOrders::Kind::kDrop,
                      .keep_slot = request.keep_slot(),
                      .done = [call](const absl::StatusOr<v1::DropFeedResponse>& answer) {
                        call->Answer(answer);
                      }});
  return call.get();
}

void DropCall::Answer(const absl::StatusOr<v1::DropFeedResponse>& answer) {
  if (answered_.exchange(true)) return;
  if (answer.ok()) *response_ = *answer;
  Finish(ToGrpcStatus(answer.status()));
}

absl::StatusOr<std::optional<v1::DropFeedResponse>> DropStored(store::Store& store,
                                                               const v1::DropFeedRequest& request) {
  const std::string& name = request.feed();
  const auto feed = store.FindFeed(name);
  if (absl::IsNotFound(feed.status())) {
    // A drop that a crash cut short.
    const auto drops = store.Drops();
    if (!drops.ok()) return drops.status();
    const auto drop = drops->find(name);
    if (drop == drops->end()) return std::nullopt;
    v1::Checkpoint checkpoint;
    *checkpoint.mutable_postgres() = drop->second.left();
    const std::vector<std::string> owned = capture::OwnedObjects(checkpoint);
    if (!request.keep_slot() && !owned.empty()) return DropWithoutSource(name, owned);
    if (absl::Status forgotten = store.ForgetDrop(name); !forgotten.ok()) return forgotten;
    return Left(owned);
  }
  if (!feed.ok()) return feed.status();
  const std::vector<std::string> owned = capture::OwnedObjects((*feed)->checkpoint());
  if (!request.keep_slot() && !owned.empty()) return DropWithoutSource(name, owned);
  if (absl::Status removed = (*feed)->Remove(); !removed.ok()) return removed;
  return Left(owned);
}

}  // namespace tidemark
