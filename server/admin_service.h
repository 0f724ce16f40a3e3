// The FeedAdmin service.
#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/time/time.h"
#include "server/delivery_pool.h"
#include "server/feed.h"
#include "server/status_report.h"
#include "server/stream_registry.h"
#include "store/store.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark {

// Thread rule: gRPC calls it from its own threads; no call waits. What is lent outlives the gRPC
// server.
class AdminService final : public v1::FeedAdmin::CallbackService {
 public:
  AdminService(const FeedDirectory& feeds, const StatusReport& report, StreamRegistry& streams,
               store::Store& store, DeliveryPool& pool, absl::Duration client_stall_timeout)
      : feeds_(feeds),
        report_(report),
        streams_(streams),
        store_(store),
        pool_(pool),
        client_stall_timeout_(client_stall_timeout) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* ListStreams(grpc::CallbackServerContext* context,
                                        const v1::ListStreamsRequest* request,
                                        v1::ListStreamsResponse* response) override;

  grpc::ServerUnaryReactor* PauseFeed(grpc::CallbackServerContext*, const v1::PauseFeedRequest*,
                                      v1::PauseFeedResponse*) override;
  grpc::ServerUnaryReactor* ResumeFeed(grpc::CallbackServerContext*, const v1::ResumeFeedRequest*,
                                       v1::ResumeFeedResponse*) override;
  grpc::ServerUnaryReactor* StopAt(grpc::CallbackServerContext*, const v1::StopAtRequest*,
                                   v1::StopAtResponse*) override;
  grpc::ServerUnaryReactor* AddTable(grpc::CallbackServerContext*, const v1::AddTableRequest*,
                                     v1::AddTableResponse*) override;
  grpc::ServerUnaryReactor* RemoveTable(grpc::CallbackServerContext*, const v1::RemoveTableRequest*,
                                        v1::RemoveTableResponse*) override;
  grpc::ServerUnaryReactor* StartSnapshot(grpc::CallbackServerContext*,
                                          const v1::StartSnapshotRequest*,
                                          v1::StartSnapshotResponse*) override;
  grpc::ServerUnaryReactor* Recover(grpc::CallbackServerContext*, const v1::RecoverRequest*,
                                    v1::RecoverResponse*) override;
  grpc::ServerWriteReactor<v1::VerifyResponse>* Verify(grpc::CallbackServerContext*,
                                                       const v1::VerifyRequest*) override;
  grpc::ServerUnaryReactor* MigrateFeed(grpc::CallbackServerContext*, const v1::MigrateFeedRequest*,
                                        v1::MigrateFeedResponse*) override;
  grpc::ServerUnaryReactor* DropFeed(grpc::CallbackServerContext*, const v1::DropFeedRequest*,
                                     v1::DropFeedResponse*) override;
  grpc::ServerUnaryReactor* EndStream(grpc::CallbackServerContext*, const v1::EndStreamRequest*,
                                      v1::EndStreamResponse*) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext*, const v1::DrainRequest*,
                                  v1::DrainResponse*) override;

 private:
  const FeedDirectory& feeds_;
  const StatusReport& report_;
  StreamRegistry& streams_;
  store::Store& store_;
  DeliveryPool& pool_;
  const absl::Duration client_stall_timeout_;
};

}  // namespace tidemark
