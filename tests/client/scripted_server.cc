#include "tests/client/scripted_server.h"

#include <chrono>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/testing/wait_until.h"

namespace tidemark::client {

ScriptedServer::ScriptedServer(std::vector<StreamScript> scripts) : scripts_(std::move(scripts)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

ScriptedServer::~ScriptedServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

std::string ScriptedServer::address() const { return "127.0.0.1:" + std::to_string(port_); }

std::shared_ptr<grpc::Channel> ScriptedServer::channel() const {
  return grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
}

std::vector<v1::SubscribeRequest> ScriptedServer::requests() {
  std::lock_guard lock(mutex_);
  return requests_;
}

grpc::Status ScriptedServer::Subscribe(grpc::ServerContext* context,
                                       const v1::SubscribeRequest* request,
                                       grpc::ServerWriter<v1::SubscribeResponse>* writer) {
  size_t call = 0;
  {
    std::lock_guard lock(mutex_);
    call = requests_.size();
    requests_.push_back(*request);
  }
  if (call >= scripts_.size()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the scripts are played out");
  }
  const StreamScript& script = scripts_[call];
  for (const v1::SubscribeResponse& record : script.records) writer->Write(record);
  if (!script.hangs) return script.end;
  const auto cancelled =
      testing::WaitUntil([&] { return context->IsCancelled(); }, std::chrono::seconds(30));
  return cancelled ? grpc::Status::CANCELLED
                   : grpc::Status(grpc::StatusCode::INTERNAL, "the client never cancelled");
}

grpc::Status StatusWithReason(grpc::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("tidemark");
  (*info.mutable_metadata())["feed"] = "main";
  google::rpc::Status details;
  details.set_code(code);
  details.add_details()->PackFrom(info);
  return grpc::Status(code, "what was found", details.SerializeAsString());
}

}  // namespace tidemark::client
