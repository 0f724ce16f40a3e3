#include <fmt/format.h>

#include <memory>
#include <string>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kPauseHelp[] =
    "Capture rests behind a whole commit, over restarts of the server, until the feed is resumed.\n"
    "What is stored is served on: streams stay open, and get Progress only. The slot keeps the\n"
    "source's log meanwhile; watch what it retains.";

constexpr char kResumeHelp[] =
    "A paused feed goes on where it was, without loss or repeat. One that is FAILED is tried "
    "again\n"
    "at once, without a restart: once the privilege, the setting or the table of the message is "
    "there.\n"
    "What comes of it is in tidemark status.";

}  // namespace

void AddFeedPause(CLI::App& feeds, const client::ChannelOptions& server, int* exit_code) {
  const auto feed = std::make_shared<std::string>();
  CLI::App* const pause = feeds.add_subcommand("pause", "Lets capture of a feed rest");
  pause->fallthrough();
  pause->footer(kPauseHelp);
  pause->add_option("FEED", *feed, "Feed")->required();
  pause->callback([&server, exit_code, feed] {
    v1::PauseFeedRequest request;
    request.set_feed(*feed);
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::PauseFeed, request,
        [&](const v1::PauseFeedResponse&) { fmt::print("paused\n"); }, kOrderTimeoutMs);
  });
  CLI::App* const resume =
      feeds.add_subcommand("resume", "Lets a feed that is paused or FAILED go on");
  resume->fallthrough();
  resume->footer(kResumeHelp);
  resume->add_option("FEED", *feed, "Feed")->required();
  resume->callback([&server, exit_code, feed] {
    v1::ResumeFeedRequest request;
    request.set_feed(*feed);
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::ResumeFeed, request,
        [&](const v1::ResumeFeedResponse&) {
          fmt::print("resumed; tidemark status {} shows what becomes of it\n", *feed);
        },
        kOrderTimeoutMs);
  });
}

}  // namespace tidemark::command
