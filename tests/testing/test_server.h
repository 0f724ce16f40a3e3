// A whole server in this process, on a free port of the loopback, with its store in a scratch
// folder. For test programs that link tidemark_server; header only, so that the others need not.
#pragma once

#include <grpcpp/create_channel.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/server.h"
#include "tests/testing/scratch_dir.h"
#include "tidemark/v1/admin.grpc.pb.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::testing {

// Thread rule: one thread at a time, but for channel() and the stubs.
class TestServer {
 public:
  // `feeds` is the YAML of the key feeds, from its first line on. Not started yet.
  explicit TestServer(std::string feeds, ServerOptions options = {})
      : feeds_(std::move(feeds)), options_(std::move(options)) {}
  ~TestServer() { Stop(); }

  absl::Status Start() {
    auto config =
        ParseConfig(ConfigText(), "test.yaml", [](const std::string&) { return std::nullopt; });
    if (!config.ok()) return config.status();
    auto server = Server::Start(*config, options_);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }
  // Drains; true when every part ended in time. The store stays, and Start goes on with it.
  bool Stop(absl::Duration drain_timeout = absl::Seconds(5)) {
    if (server_ == nullptr) return true;
    const bool ended = server_->Stop(drain_timeout);
    server_.reset();
    return ended;
  }

  Server& server() { return *server_; }
  // A connection of its own to the server that runs now.
  std::shared_ptr<grpc::Channel> channel() const {
    grpc::ChannelArguments arguments;
    // Else all channels of the process share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  std::unique_ptr<v1::ChangeFeed::Stub> feed_stub() const {
    return v1::ChangeFeed::NewStub(channel());
  }
  std::unique_ptr<v1::FeedAdmin::Stub> admin_stub() const {
    return v1::FeedAdmin::NewStub(channel());
  }

  std::string ConfigText() const {
    return "listen: 127.0.0.1:0\nlog: {file: " + (scratch_ / "log").string() +
           "}\nstore: {path: " + (scratch_ / "store").string() + "}\nfeeds:\n" + feeds_;
  }
  std::filesystem::path store_dir() const { return scratch_ / "store"; }
  std::string Log() const {
    std::ifstream stream(scratch_ / "log");
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  const std::string feeds_;
  const ServerOptions options_;
  ScratchDir scratch_{"server"};
  std::unique_ptr<Server> server_;
};

}  // namespace tidemark::testing
