#include "server/feed_service.h"

#include <utility>
#include <vector>

#include "server/cursor_calls.h"
#include "server/error_status.h"
#include "server/limits.h"
#include "server/pooled_call.h"
#include "server/read_call.h"
#include "server/request_error.h"
#include "server/subscription_reactor.h"

namespace tidemark {
namespace {

// Ends a server stream with a status before it begins.
template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit RefusedStream(const absl::Status& why) { this->Finish(ToGrpcStatus(why)); }
  void OnDone() override { delete this; }
};

grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, std::string_view feature) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(Unsupported(feature));
  return reactor;
}

absl::StatusOr<v1::SubscribeRequest> Parse(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  v1::SubscribeRequest request;
  if (bytes.Length() > limits::request_bytes_max) {
    return InvalidRequest("request", std::to_string(bytes.Length()) + " bytes long; at most " +
                                         std::to_string(limits::request_bytes_max) + " are taken");
  }
  grpc::Slice joined;
  if (!bytes.TrySingleSlice(&joined).ok() && !bytes.DumpToSingleSlice(&joined).ok()) {
    return InvalidRequest("request", "its bytes cannot be read");
  }
  if (!request.ParseFromArray(joined.begin(), static_cast<int>(joined.size()))) {
    return InvalidRequest("request", "its bytes are no SubscribeRequest");
  }
  return request;
}

}  // namespace

FeedService::FeedService(const FeedDirectory& feeds, StreamRegistry& streams, DeliveryPool& pool,
                         std::string server_version, absl::Duration client_stall_timeout)
    : feeds_(feeds),
      streams_(streams),
      pool_(pool),
      server_version_(std::move(server_version)),
      client_stall_timeout_(client_stall_timeout) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* FeedService::Subscribe(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  auto parsed = Parse(*request);
  if (!parsed.ok()) return new RefusedStream<grpc::ByteBuffer>(parsed.status());
  return SubscriptionReactor::Start(
      context, *std::move(parsed),
      {feeds_, streams_, pool_, server_version_, client_stall_timeout_});
}

grpc::ServerUnaryReactor* FeedService::Read(grpc::CallbackServerContext* /*context*/,
                                            const v1::ReadRequest* request,
                                            v1::ReadResponse* response) {
  return ReadCall::Start(request, response, feeds_, pool_);
}

grpc::ServerUnaryReactor* FeedService::ResolveCursor(grpc::CallbackServerContext* /*context*/,
                                                     const v1::ResolveCursorRequest* request,
                                                     v1::ResolveCursorResponse* response) {
  return PooledCall::Start(
      pool_, [=, this] { return tidemark::ResolveCursor(feeds_, *request, response); });
}

grpc::ServerUnaryReactor* FeedService::InspectCursor(grpc::CallbackServerContext* /*context*/,
                                                     const v1::InspectCursorRequest* request,
                                                     v1::InspectCursorResponse* response) {
  return PooledCall::Start(
      pool_, [=, this] { return tidemark::InspectCursor(feeds_, *request, response); });
}

grpc::ServerUnaryReactor* FeedService::DescribeFeed(grpc::CallbackServerContext* /*context*/,
                                                    const v1::DescribeFeedRequest* request,
                                                    v1::DescribeFeedResponse* response) {
  return PooledCall::Start(
      pool_, [=, this] { return tidemark::DescribeFeed(feeds_, *request, response); });
}

grpc::ServerUnaryReactor* FeedService::GetRow(grpc::CallbackServerContext* context,
                                              const v1::GetRowRequest* /*request*/,
                                              v1::GetRowResponse* /*response*/) {
  return Refuse(context, "GetRow");
}

grpc::ServerWriteReactor<v1::ReadRowsResponse>* FeedService::ReadRows(
    grpc::CallbackServerContext* /*context*/, const v1::ReadRowsRequest* /*request*/) {
  return new RefusedStream<v1::ReadRowsResponse>(UnsupportedFeature("ReadRows"));
}

grpc::ServerUnaryReactor* FeedService::Acknowledge(grpc::CallbackServerContext* context,
                                                   const v1::AcknowledgeRequest* /*request*/,
                                                   v1::AcknowledgeResponse* /*response*/) {
  return Refuse(context, "Acknowledge");
}

grpc::ServerUnaryReactor* FeedService::CreateSubscription(
    grpc::CallbackServerContext* context, const v1::CreateSubscriptionRequest* /*request*/,
    v1::CreateSubscriptionResponse* /*response*/) {
  return Refuse(context, "CreateSubscription");
}

grpc::ServerUnaryReactor* FeedService::ListSubscriptions(
    grpc::CallbackServerContext* context, const v1::ListSubscriptionsRequest* /*request*/,
    v1::ListSubscriptionsResponse* /*response*/) {
  return Refuse(context, "ListSubscriptions");
}

grpc::ServerUnaryReactor* FeedService::DeleteSubscription(
    grpc::CallbackServerContext* context, const v1::DeleteSubscriptionRequest* /*request*/,
    v1::DeleteSubscriptionResponse* /*response*/) {
  return Refuse(context, "DeleteSubscription");
}

}  // namespace tidemark
