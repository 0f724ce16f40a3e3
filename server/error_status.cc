#include "server/error_status.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"

namespace tidemark {
namespace {

// Trailers travel in one header block, which clients bound to 8 KiB by default: a longer message
// would be dropped by the client, together with the reason. The message stands in it twice.
constexpr size_t kMessageBytesMax = 1024;
constexpr size_t kDetailBytesMax = 512;
constexpr size_t kDetailsBytesMax = 2048;

// Cuts at a character of UTF-8, since protobuf refuses half of one.
std::string Cut(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  constexpr std::string_view kMark = "...";
  size_t end = bytes_max - kMark.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kMark);
}

std::string SerializedDetails(const absl::Status& status, const std::string& message,
                              std::string_view reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("tidemark");
  size_t left = kDetailsBytesMax;
  for (const auto& [key, value] : DetailsOf(status)) {
    std::string cut = Cut(value, kDetailBytesMax);
    if (key.size() + cut.size() > left) break;
    left -= key.size() + cut.size();
    (*info.mutable_metadata())[key] = std::move(cut);
  }
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(message);
  details.add_details()->PackFrom(info);
  return details.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string reason = ReasonOf(status);
  const std::string message =
      Cut({status.message().data(), status.message().size()}, kMessageBytesMax);
  if (reason.empty()) return grpc::Status(grpc::StatusCode::INTERNAL, message);
  // absl's codes are gRPC's codes.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      SerializedDetails(status, message, reason));
}

grpc::Status Unsupported(std::string_view feature) {
  return ToGrpcStatus(ErrorWithReason(
      absl::StatusCode::kUnimplemented, reason::kFeatureUnsupported,
      std::string(feature) + " is part of the contract, but this server cannot do it yet",
      {{"feature", std::string(feature)}}));
}

}  // namespace tidemark
