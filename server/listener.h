// How the gRPC server listens: address, transport security, message sizes, keepalive.
#pragma once

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark {

// TLS where the configuration has it, else plaintext (which its rules allow on loopback, or when
// insecure is set). CONFIG_INVALID when certificate or key cannot be read.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const v1::Config& config);

// Message sizes, keepalive and the resources of the server. A port that is taken is an error, never
// shared with its owner.
void SetListenerOptions(grpc::ServerBuilder* builder);

// `listen` with the port that was bound in place of 0.
std::string BoundAddress(const std::string& listen, int port);

}  // namespace tidemark
