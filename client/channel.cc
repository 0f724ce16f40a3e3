#include "client/channel.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <fstream>
#include <sstream>

#include "client/reason.h"
#include "proto/reason.h"

namespace tidemark::client {
namespace {

// The channel must not add a wait of its own to that of Backoff.
constexpr int kReconnectWaitFirstMs = 50;
constexpr int kReconnectWaitLongestMs = 1000;
// How long one attempt to connect may take.
constexpr int kConnectTimeoutMs = 10'000;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kFileIo,
        fmt::format("cannot read {}: name a PEM file with the certificate of the "
                    "authority that signed the server's",
                    path),
        {{"file", path}});
  }
  return content.str();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const ChannelOptions& options) {
  if (!options.tls && options.tls_ca_file.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  if (!options.tls_ca_file.empty()) {
    absl::StatusOr<std::string> roots = ReadFile(options.tls_ca_file);
    if (!roots.ok()) return roots.status();
    ssl.pem_root_certs = *std::move(roots);
  }
  return grpc::SslCredentials(ssl);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options) {
  auto credentials = Credentials(options);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectWaitFirstMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectWaitLongestMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  return grpc::CreateCustomChannel(options.server, *credentials, arguments);
}

}  // namespace tidemark::client
