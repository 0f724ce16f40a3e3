#include "server/listener.h"

#include <grpc/grpc.h>
#include <grpcpp/security/server_credentials.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/reason.h"
#include "server/limits.h"

namespace tidemark {
namespace {

absl::StatusOr<std::string> ReadPem(const std::string& key, const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text(limits::secret_file_bytes_max, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.find("-----BEGIN ") != std::string::npos) return text;
  return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kConfigInvalid,
                         absl::StrCat(key, ": ", path, " cannot be read, or is not PEM"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const v1::Config& config) {
  if (!config.has_tls()) return grpc::InsecureServerCredentials();
  auto certificate = ReadPem("tls.certificate_file", config.tls().certificate_file());
  if (!certificate.ok()) return certificate.status();
  auto key = ReadPem("tls.key_file", config.tls().key_file());
  if (!key.ok()) return key.status();
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({*std::move(key), *std::move(certificate)});
  return grpc::SslServerCredentials(options);
}

void SetListenerOptions(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(limits::request_bytes_max));
  // Ours are bounded where they are made; gRPC's own limit would cut a stream without a reason.
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, limits::keepalive_time_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limits::keepalive_timeout_ms);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              limits::keepalive_client_min_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix:")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

}  // namespace tidemark
