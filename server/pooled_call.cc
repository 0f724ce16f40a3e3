#include "server/pooled_call.h"

#include "server/error_status.h"

namespace tidemark {

grpc::ServerUnaryReactor* PooledCall::Start(DeliveryPool& pool,
                                            std::function<absl::Status()> work) {
  std::shared_ptr<PooledCall> call(new PooledCall(std::move(work)));
  call->self_ = call;
  pool.Wake(call);
  return call.get();
}

absl::Time PooledCall::RunStep(absl::Time /*now*/) {
  if (!finished_) {
    finished_ = true;
    Finish(ToGrpcStatus(work_()));
  }
  return absl::InfiniteFuture();
}

}  // namespace tidemark
