// A unary call that runs on the delivery pool, so that gRPC's own threads never wait for the disk.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/delivery_pool.h"

namespace tidemark {

// Owns itself until gRPC is done with it.
class PooledCall final : public grpc::ServerUnaryReactor, public DeliveryTask {
 public:
  // `work` fills the response; what it captures lives until gRPC is done with the call.
  static grpc::ServerUnaryReactor* Start(DeliveryPool& pool, std::function<absl::Status()> work);

  void OnDone() override { const auto last = std::move(self_); }

 private:
  explicit PooledCall(std::function<absl::Status()> work) : work_(std::move(work)) {}
  absl::Time RunStep(absl::Time now) override;

  const std::function<absl::Status()> work_;
  std::shared_ptr<PooledCall> self_;
  bool finished_ = false;
};

}  // namespace tidemark
