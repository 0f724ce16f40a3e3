// The options that every command has, and a call to the server they name.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/client_context.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/call_error.h"
#include "client/channel.h"
#include "client/command/report.h"

namespace tidemark::command {

// How long a call may take that answers once.
inline constexpr int kCallTimeoutMs = 10'000;
// The same of one that capture answers, which may be waiting for a source.
inline constexpr int kOrderTimeoutMs = 60'000;

void AddServerOptions(CLI::App& app, client::ChannelOptions* options);

// The message as JSON: field names as in the proto files, no field left out, 64-bit numbers as
// strings.
void PrintJson(const google::protobuf::Message& message);

// One call; `print` gets the response. Returns the exit code, and reports what goes wrong.
//   Call<v1::ChangeFeed>(options, &v1::ChangeFeed::Stub::DescribeFeed, request, print)
template <typename Service, typename Request, typename Response, typename Print>
int Call(const client::ChannelOptions& options,
         grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
         const Request& request, const Print& print, int timeout_ms = kCallTimeoutMs) {
  const auto channel = client::MakeChannel(options);
  if (!channel.ok()) return Report(channel.status(), options.server);
  const auto stub = Service::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  Response response;
  const grpc::Status status = ((*stub).*method)(&context, request, &response);
  if (!status.ok()) return Report(client::FromGrpcStatus(status), options.server);
  print(response);
  return 0;
}

}  // namespace tidemark::command
