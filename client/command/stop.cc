#include <fmt/format.h>

#include <memory>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/point.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kStopHelp[] =
    "Capture of the feed ends exactly at the point: every transaction at or before it is stored,\n"
    "none behind it. The feed is FINISHED then, over restarts too, and is served on; its slot is\n"
    "kept. With never, or a later point, capture goes on from there, without loss or repeat.";

struct Options {
  std::string feed;
  std::string at;
  bool json = false;
};

void PrintStop(const v1::StopAtResponse& stop) {
  if (stop.native_position().empty()) {
    fmt::print("stored; tidemark status shows the position once the source could be asked\n");
  } else {
    fmt::print("{}{}\n", stop.native_position(), stop.finished() ? " (finished)" : "");
  }
}

int Stop(const client::ChannelOptions& server, const Options& options) {
  v1::StopAtRequest request;
  request.set_feed(options.feed);
  if (options.at == "never") {
    request.mutable_until()->mutable_none();
  } else {
    const absl::StatusOr<v1::Until> until = ParseBound(options.at);
    if (!until.ok()) {
      Report(until.status(), server.server);
      return kUsage;
    }
    *request.mutable_until() = *until;
  }
  return Call<v1::FeedAdmin>(server, &v1::FeedAdmin::Stub::StopAt, request,
                             [&](const v1::StopAtResponse& stop) {
                               if (options.json) return PrintJson(stop);
                               if (options.at == "never") {
                                 fmt::print("capture goes on\n");
                               } else {
                                 PrintStop(stop);
                               }
                             });
}

}  // namespace

void AddStop(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("stop", "Sets where capture of a feed ends");
  command->fallthrough();
  command->footer(kStopHelp);
  command->add_option("FEED", options->feed, "Feed")->required();
  command->add_option("--at", options->at, fmt::format("never; or {}", kBoundHelp))->required();
  command->add_flag("--json", options->json, "StopAtResponse as JSON");
  command->callback([&server, exit_code, options] { *exit_code = Stop(server, *options); });
}

}  // namespace tidemark::command
