// What became of a call, and whether to try again. Pure; safe from any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace tidemark::client {

// Code and message as they came, with reason and details (proto/reason.h) from google.rpc.ErrorInfo
// where the server sent one. Without one, UNAVAILABLE and DEADLINE_EXCEEDED get the reason
// SERVER_UNREACHABLE: what answered, if anything did, was no Tidemark.
absl::Status FromGrpcStatus(const grpc::Status& status);

// True: the same request may succeed later, so it is repeated with backoff. False: a person or the
// program has to change something first. Goes by the reason where the client knows it, else by the
// code, so that an older client does what is sensible with a reason of a newer server.
bool IsRetried(const absl::Status& error);

}  // namespace tidemark::client
