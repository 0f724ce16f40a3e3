#include <fmt/format.h>

#include <memory>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/point.h"
#include "client/command/server_options.h"
#include "client/command/text_table.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::command {
namespace {

struct Options {
  std::string feed;
  std::string cursor;
  std::string point;
  bool json = false;
};

void PrintInspection(const v1::InspectCursorResponse& cursor) {
  fmt::print("status       {}\n",
             EnumText(v1::CursorStatus_Name(cursor.status()), "CURSOR_STATUS_"));
  fmt::print("position     {}\n", cursor.position());
  fmt::print("native       {}\n", cursor.native_position());
  fmt::print("generation   {}\n", cursor.generation());
  fmt::print("commit time  {}\n", TimeText(cursor.commit_time()));
  fmt::print("headroom     {}\n", BytesText(cursor.headroom_bytes()));
  fmt::print("behind       {}\n", BytesText(cursor.behind_bytes()));
}

int Inspect(const client::ChannelOptions& server, const Options& options) {
  v1::InspectCursorRequest request;
  request.set_feed(options.feed);
  request.set_cursor(options.cursor);
  return Call<v1::ChangeFeed>(server, &v1::ChangeFeed::Stub::InspectCursor, request,
                              [&](const v1::InspectCursorResponse& cursor) {
                                options.json ? PrintJson(cursor) : PrintInspection(cursor);
                              });
}

int Resolve(const client::ChannelOptions& server, const Options& options) {
  const absl::StatusOr<v1::Start> point = ParsePoint(options.point);
  if (!point.ok() || point->has_cursor() || point->has_snapshot()) {
    fmt::print(stderr,
               "tidemark: cannot resolve {}: expected earliest, latest, a time as "
               "2026-03-01T12:00:00Z, or a position in the source's own form\n",
               options.point);
    return kUsage;
  }
  v1::ResolveCursorRequest request;
  request.set_feed(options.feed);
  if (point->has_earliest()) request.mutable_earliest();
  if (point->has_latest()) request.mutable_latest();
  if (point->has_time()) *request.mutable_time() = point->time();
  if (!point->native_position().empty()) request.set_native_position(point->native_position());
  return Call<v1::ChangeFeed>(server, &v1::ChangeFeed::Stub::ResolveCursor, request,
                              [&](const v1::ResolveCursorResponse& cursor) {
                                if (options.json) return PrintJson(cursor);
                                fmt::print("{}\n", cursor.cursor());
                              });
}

}  // namespace

void AddCursor(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("cursor", "Looks at cursors, and makes them");
  command->fallthrough()->require_subcommand(1);

  CLI::App* const inspect =
      command->add_subcommand("inspect", "Says what a cursor names and whether it still resumes");
  inspect->fallthrough();
  inspect->add_option("FEED", options->feed, "Feed")->required();
  inspect->add_option("CURSOR", options->cursor, "Cursor, as a server gave it")->required();
  inspect->add_flag("--json", options->json, "InspectCursorResponse as JSON");
  inspect->callback([&server, exit_code, options] { *exit_code = Inspect(server, *options); });

  CLI::App* const resolve =
      command->add_subcommand("resolve", "Prints the cursor of a point of the feed");
  resolve->fallthrough();
  resolve->add_option("FEED", options->feed, "Feed")->required();
  resolve->add_option("POINT", options->point, "earliest or latest")->required();
  resolve->add_flag("--json", options->json, "ResolveCursorResponse as JSON");
  resolve->callback([&server, exit_code, options] { *exit_code = Resolve(server, *options); });
}

}  // namespace tidemark::command
