#include "client/call_error.h"

#include <algorithm>
#include <array>
#include <string>

#include "client/reason.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"

namespace tidemark::client {
namespace {

// Their codes alone would not say it: STREAMS_EXHAUSTED passes, while a message that is too large
// for the channel has the same code and does not.
constexpr std::array kRetriedReasons = {
    tidemark::reason::kFeedNotReady,    tidemark::reason::kCursorAhead,
    tidemark::reason::kServerDraining,  tidemark::reason::kStreamsExhausted,
    tidemark::reason::kClientStalled,   tidemark::reason::kFeedRestarted,
    client::reason::kServerUnreachable, client::reason::kServerSilent,
};

bool IsRetriedCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    // A proxy or a dying server ends streams with these.
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& detail : details.details()) {
      google::rpc::ErrorInfo info;
      if (!detail.UnpackTo(&info)) continue;
      return ErrorWithReason(code, info.reason(), status.error_message(),
                             ErrorDetails(info.metadata().begin(), info.metadata().end()));
    }
  }
  // Details do not reach a client that took nothing: the reason leads the message.
  if (status.error_message().rfind(std::string(tidemark::reason::kClientStalled) + ": ", 0) == 0) {
    return ErrorWithReason(code, tidemark::reason::kClientStalled, status.error_message());
  }
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    return ErrorWithReason(code, reason::kServerUnreachable, status.error_message());
  }
  return absl::Status(code, status.error_message());
}

bool IsRetried(const absl::Status& error) {
  const std::string reason = ReasonOf(error);
  if (std::find(kRetriedReasons.begin(), kRetriedReasons.end(), reason) != kRetriedReasons.end()) {
    return true;
  }
  return IsRetriedCode(error.code());
}

}  // namespace tidemark::client
