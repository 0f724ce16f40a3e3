#include <fmt/format.h>

#include <memory>
#include <string>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kDropHelp[] =
    "Deletes a feed for good: capture ends, its streams end with FEED_DROPPED, the slot and the\n"
    "publication that were made for it are dropped at the source (never one that somebody else\n"
    "made), and its log and its rows leave the store. No cursor of it resumes any more. Where the\n"
    "source cannot be asked, the drop is refused and says what is there; with --keep-slot it is "
    "not\n"
    "asked, and what is there has to be dropped by hand: a slot that nobody reads keeps WAL for "
    "ever.\n"
    "A feed that the configuration still names begins afresh with the next start of the server, "
    "with\n"
    "a new snapshot. One that it does not name any more can be dropped, too.";

struct Options {
  std::string feed;
  bool yes = false;
  bool keep_slot = false;
  bool json = false;
};

void Print(const v1::DropFeedResponse& response, const std::string& feed) {
  for (const std::string& dropped : response.dropped()) fmt::print("dropped {}\n", dropped);
  for (const std::string& left : response.left()) fmt::print("left at the source: {}\n", left);
  fmt::print("feed {} is gone from the store{}\n", feed,
             response.configured() ? "; the configuration names it: the next start of the server "
                                     "begins it afresh, with a new snapshot"
                                   : "");
}

int Drop(const client::ChannelOptions& server, const Options& options) {
  if (!options.yes) {
    fmt::print(
        stderr,
        "tidemark: this deletes the log and the rows of feed {} for good{}; say --yes if that "
        "is meant\n",
        options.feed, options.keep_slot ? "" : ", and its slot at the source");
    return kUsage;
  }
  v1::DropFeedRequest request;
  request.set_feed(options.feed);
  request.set_keep_slot(options.keep_slot);
  return Call<v1::FeedAdmin>(
      server, &v1::FeedAdmin::Stub::DropFeed, request,
      [&](const v1::DropFeedResponse& response) {
        options.json ? PrintJson(response) : Print(response, options.feed);
      },
      kOrderTimeoutMs);
}

}  // namespace

void AddFeedDrop(CLI::App& feeds, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const drop = feeds.add_subcommand("drop", "Deletes a feed, with its slot");
  drop->fallthrough();
  drop->footer(kDropHelp);
  drop->add_option("FEED", options->feed, "Feed")->required();
  drop->add_flag("--yes", options->yes, "Confirms that it is to be deleted");
  drop->add_flag("--keep-slot", options->keep_slot,
                 "The source is not asked, and what was made for the feed there is left");
  drop->add_flag("--json", options->json, "DropFeedResponse as JSON");
  drop->callback([&server, exit_code, options] { *exit_code = Drop(server, *options); });
}

}  // namespace tidemark::command
