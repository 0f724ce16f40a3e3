// How a client reaches a server. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tidemark::client {

inline constexpr char kDefaultServer[] = "127.0.0.1:7654";

struct ChannelOptions {
  std::string server = kDefaultServer;  // HOST:PORT
  // TLS, with the system's roots unless `tls_ca_file` names a PEM file of roots.
  bool tls = false;
  std::string tls_ca_file;
};

// Connects when it is first used, and again after every break. FILE_IO when the roots cannot be
// read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options);

}  // namespace tidemark::client
