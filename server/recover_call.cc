#include "server/recover_call.h"

#include "server/error_status.h"
#include "server/reader_request.h"
#include "server/request_error.h"

namespace tidemark {

grpc::ServerUnaryReactor* RecoverCall::Start(const v1::RecoverRequest* request,
                                             const FeedDirectory& feeds) {
  std::shared_ptr<RecoverCall> call(new RecoverCall());
  call->self_ = call;
  if (auto given = call->Give(*request, feeds); !given.ok()) call->Answer(given);
  return call.get();
}

absl::Status RecoverCall::Give(const v1::RecoverRequest& request, const FeedDirectory& feeds) {
  if (auto status = CheckNothingUnknown("request", request); !status.ok()) return status;
  if (request.policy() != v1::RECOVERY_POLICY_RESNAPSHOT &&
      request.policy() != v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    return InvalidRequest("policy",
                          "expects RECOVERY_POLICY_RESNAPSHOT or RECOVERY_POLICY_GAP_AND_CONTINUE; "
                          "a feed that stopped stays so without an order");
  }
  const auto feed = feeds.Find(request.feed());
  if (!feed.ok()) return feed.status();
  (*feed)->recovery().Give(
      {request.policy(),
       [call = shared_from_this()](const absl::Status& status) { call->Answer(status); }});
  return absl::OkStatus();
}

void RecoverCall::Answer(const absl::Status& status) {
  if (!answered_.exchange(true)) Finish(ToGrpcStatus(status));
}

}  // namespace tidemark
