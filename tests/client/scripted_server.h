// A gRPC server that plays one script per call of Subscribe: for the reconnect logic of the client
// only, where the server's behaviour has to be chosen to the record.
// Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::client {

struct StreamScript {
  std::vector<v1::SubscribeResponse> records;
  // After the records: stay silent until the client cancels, or end with this status.
  bool hangs = false;
  grpc::Status end;
};

class ScriptedServer : public v1::ChangeFeed::Service {
 public:
  // Calls beyond the scripts are refused with INVALID_ARGUMENT.
  explicit ScriptedServer(std::vector<StreamScript> scripts);
  ~ScriptedServer() override;

  std::shared_ptr<grpc::Channel> channel() const;
  std::string address() const;
  std::vector<v1::SubscribeRequest> requests();

  grpc::Status Subscribe(grpc::ServerContext* context, const v1::SubscribeRequest* request,
                         grpc::ServerWriter<v1::SubscribeResponse>* writer) override;

 private:
  const std::vector<StreamScript> scripts_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::vector<v1::SubscribeRequest> requests_;  // guarded by mutex_
};

// As the server of the product sends it.
grpc::Status StatusWithReason(grpc::StatusCode code, const std::string& reason);

}  // namespace tidemark::client
