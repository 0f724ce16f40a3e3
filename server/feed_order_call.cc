#include "server/feed_order_call.h"

#include <utility>

#include "server/error_status.h"

namespace tidemark {

grpc::ServerUnaryReactor* FeedOrderCall::Start(Feed& feed, FeedOrder order,
                                               v1::DropFeedResponse* response) {
  std::shared_ptr<FeedOrderCall> call(new FeedOrderCall(response));
  call->self_ = call;
  order.done = [call](const absl::StatusOr<v1::DropFeedResponse>& answer) { call->Answer(answer); };
  feed.orders().Give(std::move(order));
  return call.get();
}

void FeedOrderCall::Answer(const absl::StatusOr<v1::DropFeedResponse>& answer) {
  if (answered_.exchange(true)) return;
  if (answer.ok() && response_ != nullptr) *response_ = *answer;
  Finish(ToGrpcStatus(answer.status()));
}

}  // namespace tidemark
