#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/interrupt.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kMigrateHelp[] =
    "Moves a feed from polling to the log under the same name; its configuration has both blocks,\n"
    "poll and postgres. Polling goes on while publication and slot are made; behind the next "
    "polls\n"
    "the log is read, in a new generation, and every table is compared with what is known of it.\n"
    "Subscribers stay connected, and are told what really differs.\n"
    "  preparing     publication and slot are made\n"
    "  prepared      a poll that began behind that is to end\n"
    "  overlapped    the feed goes on from the log as soon as that poll's end is found there\n"
    "  switched      the log is read; the tables are compared\n"
    "Every step is stored, and goes on after a crash. Until it is switched it can be rolled back:\n"
    "slot and publication that were made for it are dropped.\n"
    "Waits until the move is done (--no-wait: until the order is stored). An interruption ends "
    "the\n"
    "waiting, not the move.";

constexpr int kLookPeriodMs = 200;

struct Options {
  std::string feed;
  bool roll_back = false;
  bool no_wait = false;
};

struct Look {
  std::string phase;
  std::string engine;
  std::string text;
  bool failed = false;
};

Look LookOf(const v1::GetStatusResponse& response) {
  Look look;
  for (const v1::FeedStatus& feed : response.feeds()) {
    look.phase = feed.migration().phase();
    look.engine = feed.engine();
    look.failed = feed.source_state() == v1::SOURCE_STATE_FAILED;
    look.text = feed.migration().message();
    if (look.failed) look.text = feed.last_error().reason() + ": " + feed.last_error().message();
  }
  return look;
}

// Until it says that the feed is moved, or not any more.
int Follow(const client::ChannelOptions& server, const Options& options) {
  Interrupt interrupt;
  std::string shown;
  while (true) {
    v1::GetStatusRequest request;
    request.set_feed(options.feed);
    Look look;
    const int called = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::GetStatus, request,
        [&](const v1::GetStatusResponse& response) { look = LookOf(response); });
    if (called != kDone) return called;
    if (look.failed) {
      fmt::print(stderr, "tidemark: feed {} needs a person: {}\n", options.feed, look.text);
      return kFailed;
    }
    const std::string line =
        look.text.empty() ? look.phase : fmt::format("{}: {}", look.phase, look.text);
    if (!look.phase.empty() && line != shown) {
      shown = line;
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
    if (look.phase.empty()) {
      fmt::print("{}\n",
                 look.engine == "postgres" ? "done: captured from the log" : "rolled back: polled");
      return (look.engine == "postgres") == options.roll_back ? kFailed : kDone;
    }
    pollfd waits{.fd = interrupt.fd(), .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, kLookPeriodMs) > 0) return kDone;
  }
}

int Migrate(const client::ChannelOptions& server, const Options& options) {
  v1::MigrateFeedRequest request;
  request.set_feed(options.feed);
  request.set_roll_back(options.roll_back);
  const int called = Call<v1::FeedAdmin>(
      server, &v1::FeedAdmin::Stub::MigrateFeed, request, [&](const v1::MigrateFeedResponse&) {
        if (options.no_wait) {
          fmt::print("stored; tidemark status {} shows what becomes of it\n", options.feed);
        }
      });
  return called != kDone || options.no_wait ? called : Follow(server, options);
}

}  // namespace

void AddFeed(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const feeds = app.add_subcommand("feed", "Changes a feed as a whole");
  feeds->fallthrough();
  feeds->require_subcommand(1);
  CLI::App* const migrate =
      feeds->add_subcommand("migrate", "Moves a feed from polling to the log");
  migrate->fallthrough();
  migrate->footer(kMigrateHelp);
  migrate->add_option("FEED", options->feed, "Feed")->required();
  migrate->add_flag("--roll-back", options->roll_back,
                    "Takes away again what was prepared; not once it is switched");
  migrate->add_flag("--no-wait", options->no_wait, "Ends as soon as the order is stored");
  migrate->callback([&server, exit_code, options] { *exit_code = Migrate(server, *options); });
  AddFeedPause(*feeds, server, exit_code);
  AddFeedDrop(*feeds, server, exit_code);
}

}  // namespace tidemark::command
