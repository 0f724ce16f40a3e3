#include <fmt/format.h>

#include <memory>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "client/command/text_table.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

void PrintStreams(const v1::ListStreamsResponse& response) {
  std::vector<TextRow> rows = {
      {"ID", "FEED", "LABEL", "PEER", "STATE", "DELIVERED", "BEHIND", "SENT", "OPENED", "STALLED"}};
  for (const v1::StreamStatus& stream : response.streams()) {
    rows.push_back({std::to_string(stream.id()), stream.feed(), stream.label(), stream.peer(),
                    EnumText(v1::FeedState_Name(stream.state()), "FEED_STATE_"),
                    stream.delivered().native_position(), BytesText(stream.behind_bytes()),
                    BytesText(stream.sent_bytes()), TimeText(stream.opened()),
                    TimeText(stream.stalled_since())});
  }
  fmt::print("{}", TextTable(rows));
}

}  // namespace

void AddStreams(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  struct Options {
    std::string feed;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("streams", "Lists the open streams");
  command->fallthrough();
  command->add_option("FEED", options->feed, "Only of this feed");
  command->add_flag("--json", options->json, "ListStreamsResponse as JSON");
  command->callback([&server, exit_code, options] {
    v1::ListStreamsRequest request;
    request.set_feed(options->feed);
    *exit_code = Call<v1::FeedAdmin>(server, &v1::FeedAdmin::Stub::ListStreams, request,
                                     [&](const v1::ListStreamsResponse& streams) {
                                       options->json ? PrintJson(streams) : PrintStreams(streams);
                                     });
  });
}

}  // namespace tidemark::command
