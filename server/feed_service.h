// The ChangeFeed service: checks requests, answers the short calls, opens streams.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/time/time.h"
#include "server/delivery_pool.h"
#include "server/feed.h"
#include "server/stream_registry.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark {

// Thread rule: gRPC calls it from its own threads. Everything given is lent and outlives the
// service; the gRPC server is shut down before the service goes.
class FeedService final
    : public v1::ChangeFeed::WithRawCallbackMethod_Subscribe<v1::ChangeFeed::CallbackService> {
 public:
  FeedService(const FeedDirectory& feeds, StreamRegistry& streams, DeliveryPool& pool,
              std::string server_version, absl::Duration client_stall_timeout);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Subscribe(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const v1::ReadRequest* request,
                                 v1::ReadResponse* response) override;
  grpc::ServerUnaryReactor* ResolveCursor(grpc::CallbackServerContext* context,
                                          const v1::ResolveCursorRequest* request,
                                          v1::ResolveCursorResponse* response) override;
  grpc::ServerUnaryReactor* InspectCursor(grpc::CallbackServerContext* context,
                                          const v1::InspectCursorRequest* request,
                                          v1::InspectCursorResponse* response) override;
  grpc::ServerUnaryReactor* DescribeFeed(grpc::CallbackServerContext* context,
                                         const v1::DescribeFeedRequest* request,
                                         v1::DescribeFeedResponse* response) override;

  grpc::ServerUnaryReactor* GetRow(grpc::CallbackServerContext* context,
                                   const v1::GetRowRequest* request,
                                   v1::GetRowResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadRowsResponse>* ReadRows(
      grpc::CallbackServerContext* context, const v1::ReadRowsRequest* request) override;
  grpc::ServerUnaryReactor* Acknowledge(grpc::CallbackServerContext* context,
                                        const v1::AcknowledgeRequest* request,
                                        v1::AcknowledgeResponse* response) override;
  grpc::ServerUnaryReactor* CreateSubscription(grpc::CallbackServerContext* context,
                                               const v1::CreateSubscriptionRequest* request,
                                               v1::CreateSubscriptionResponse* response) override;
  grpc::ServerUnaryReactor* ListSubscriptions(grpc::CallbackServerContext* context,
                                              const v1::ListSubscriptionsRequest* request,
                                              v1::ListSubscriptionsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteSubscription(grpc::CallbackServerContext* context,
                                               const v1::DeleteSubscriptionRequest* request,
                                               v1::DeleteSubscriptionResponse* response) override;

 private:
  const FeedDirectory& feeds_;
  StreamRegistry& streams_;
  DeliveryPool& pool_;
  const std::string server_version_;
  const absl::Duration client_stall_timeout_;
};

}  // namespace tidemark
