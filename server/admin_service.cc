#include "server/admin_service.h"

#include <utility>

#include "proto/reason.h"
#include "server/error_status.h"
#include "server/feed_order_call.h"
#include "server/limits.h"
#include "server/migrate_call.h"
#include "server/pooled_call.h"
#include "server/reader_request.h"
#include "server/recover_call.h"
#include "server/request_error.h"
#include "server/stop_at_call.h"
#include "server/stored_drop.h"
#include "server/table_calls.h"
#include "server/verify_call.h"

namespace tidemark {
namespace {

grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context, const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

template <typename Response>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 absl::StatusOr<Response> answer, Response* response) {
  if (answer.ok()) *response = *std::move(answer);
  return Finish(context, ToGrpcStatus(answer.status()));
}

template <typename Request>
grpc::ServerUnaryReactor* Order(grpc::CallbackServerContext* context, const FeedDirectory& feeds,
                                const Request& request, FeedOrder::Kind kind) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) {
    return Finish(context, ToGrpcStatus(status));
  }
  const auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return Finish(context, ToGrpcStatus(feed.status()));
  return FeedOrderCall::Start(**feed, {.kind = kind});
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const v1::GetStatusRequest* request,
                                                  v1::GetStatusResponse* response) {
  return Answer(context, report_.Get(request->feed()), response);
}

grpc::ServerUnaryReactor* AdminService::StopAt(grpc::CallbackServerContext* /*context*/,
                                               const v1::StopAtRequest* request,
                                               v1::StopAtResponse* response) {
  return StopAtCall::Start(request, response, feeds_);
}

grpc::ServerUnaryReactor* AdminService::Recover(grpc::CallbackServerContext* /*context*/,
                                                const v1::RecoverRequest* request,
                                                v1::RecoverResponse* /*response*/) {
  return RecoverCall::Start(request, feeds_);
}

grpc::ServerUnaryReactor* AdminService::MigrateFeed(grpc::CallbackServerContext* /*context*/,
                                                    const v1::MigrateFeedRequest* request,
                                                    v1::MigrateFeedResponse* /*response*/) {
  return MigrateCall::Start(request, feeds_);
}

grpc::ServerUnaryReactor* AdminService::ListStreams(grpc::CallbackServerContext* context,
                                                    const v1::ListStreamsRequest* request,
                                                    v1::ListStreamsResponse* response) {
  return Answer(context, report_.ListStreams(request->feed()), response);
}

grpc::ServerWriteReactor<v1::VerifyResponse>* AdminService::Verify(
    grpc::CallbackServerContext* context, const v1::VerifyRequest* request) {
  return VerifyCall::Start(context, request, feeds_, client_stall_timeout_);
}

grpc::ServerUnaryReactor* AdminService::AddTable(grpc::CallbackServerContext* context,
                                                 const v1::AddTableRequest* request,
                                                 v1::AddTableResponse*) {
  return Finish(context, ToGrpcStatus(GiveOrders(feeds_, request->feed(), OrdersOf(*request))));
}

grpc::ServerUnaryReactor* AdminService::RemoveTable(grpc::CallbackServerContext* context,
                                                    const v1::RemoveTableRequest* request,
                                                    v1::RemoveTableResponse*) {
  return Finish(context, ToGrpcStatus(GiveOrders(feeds_, request->feed(), OrdersOf(*request))));
}

grpc::ServerUnaryReactor* AdminService::StartSnapshot(grpc::CallbackServerContext* context,
                                                      const v1::StartSnapshotRequest* request,
                                                      v1::StartSnapshotResponse*) {
  return Finish(context, ToGrpcStatus(GiveOrders(feeds_, request->feed(), OrdersOf(*request))));
}

grpc::ServerUnaryReactor* AdminService::PauseFeed(grpc::CallbackServerContext* context,
                                                  const v1::PauseFeedRequest* request,
                                                  v1::PauseFeedResponse* /*response*/) {
  return Order(context, feeds_, *request, FeedOrder::Kind::kPause);
}

grpc::ServerUnaryReactor* AdminService::ResumeFeed(grpc::CallbackServerContext* context,
                                                   const v1::ResumeFeedRequest* request,
                                                   v1::ResumeFeedResponse* /*response*/) {
  return Order(context, feeds_, *request, FeedOrder::Kind::kResume);
}

grpc::ServerUnaryReactor* AdminService::DropFeed(grpc::CallbackServerContext* context,
                                                 const v1::DropFeedRequest* request,
                                                 v1::DropFeedResponse* response) {
  if (auto status = CheckNothingUnknown("request", *request); !status.ok()) {
    return Finish(context, ToGrpcStatus(status));
  }
  const auto feed = feeds_.Find(request->feed());
  if (feed.ok()) {
    return FeedOrderCall::Start(
        **feed, {.kind = FeedOrder::Kind::kDrop, .keep_slot = request->keep_slot()}, response);
  }
  return PooledCall::Start(pool_, [=, this, unknown = feed.status()]() -> absl::Status {
    auto dropped = DropStored(store_, *request);
    if (!dropped.ok()) return dropped.status();
    if (!*dropped) return unknown;
    *response = **std::move(dropped);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::EndStream(grpc::CallbackServerContext* context,
                                                  const v1::EndStreamRequest* request,
                                                  v1::EndStreamResponse* /*response*/) {
  if (auto status = CheckNothingUnknown("request", *request); !status.ok()) {
    return Finish(context, ToGrpcStatus(status));
  }
  const bool is_there = streams_.Close(
      request->id(), {ErrorWithReason(absl::StatusCode::kAborted, reason::kStreamEnded,
                                      "an operator ended this stream; resume from the cursor"),
                      absl::Milliseconds(limits::drain_retry_after_ms)});
  return Finish(context, ToGrpcStatus(is_there ? absl::OkStatus()
                                               : InvalidRequest("id",
                                                                "names no open stream; "
                                                                "ListStreams lists them")));
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* context,
                                              const v1::DrainRequest* request,
                                              v1::DrainResponse* /*response*/) {
  const absl::Status status = CheckNothingUnknown("request", *request);
  if (status.ok()) {
    streams_.Drain({ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining,
                                    "the server was drained by order, until it is restarted; "
                                    "resume from the cursor"),
                    absl::Milliseconds(limits::drain_retry_after_ms)});
  }
  return Finish(context, ToGrpcStatus(status));
}

}  // namespace tidemark
