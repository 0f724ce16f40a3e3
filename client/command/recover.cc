#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kRecoverHelp[] =
    "For a feed that is FAILED because its source's log does not go on behind what is stored: a\n"
    "lost slot, a restored database, a promoted standby. Capture goes on in a new generation;\n"
    "subscribers that pass the place get a Gap record there, and their cursors go on.\n"
    "  resnapshot        every table is read again beside the stream, and what its rows really\n"
    "                    differ in comes as changes, deletes included\n"
    "  gap_and_continue  what lies between is lost, and current rows are given up\n"
    "The order is stored: it holds over restarts. What a feed does by itself is `recovery` in the\n"
    "configuration.";

struct Options {
  std::string feed;
  v1::RecoveryPolicy policy = v1::RECOVERY_POLICY_UNSPECIFIED;
};

}  // namespace

void AddRecover(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("recover", "Goes on behind a break of the source's log");
  command->fallthrough();
  command->footer(kRecoverHelp);
  command->add_option("FEED", options->feed, "Feed")->required();
  const std::map<std::string, v1::RecoveryPolicy> policies = {
      {"resnapshot", v1::RECOVERY_POLICY_RESNAPSHOT},
      {"gap_and_continue", v1::RECOVERY_POLICY_GAP_AND_CONTINUE}};
  command->add_option("--policy", options->policy, "What is done about what is missing")
      ->required()
      ->transform(CLI::CheckedTransformer(policies).description("resnapshot or gap_and_continue"));
  command->callback([&server, exit_code, options] {
    v1::RecoverRequest request;
    request.set_feed(options->feed);
    request.set_policy(options->policy);
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::Recover, request, [&](const v1::RecoverResponse&) {
          fmt::print("stored; tidemark status {} shows what becomes of it\n", options->feed);
        });
  });
}

}  // namespace tidemark::command
