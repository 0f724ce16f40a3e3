// How an error with a reason reaches a gRPC client: as google.rpc.Status with google.rpc.ErrorInfo
// in the trailer grpc-status-details-bin. Pure; safe from any thread.
#pragma once

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace tidemark {

// OK becomes OK. The ErrorInfo has the domain "tidemark", the reason, and the details as metadata;
// a status without a reason is INTERNAL without details, since that is a bug of ours.
grpc::Status ToGrpcStatus(const absl::Status& status);

// UNIMPLEMENTED with FEATURE_UNSUPPORTED, naming the feature.
grpc::Status Unsupported(std::string_view feature);

}  // namespace tidemark
