#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "client/command/text_table.h"
#include "proto/table_name.h"
#include "tidemark/v1/feed.grpc.pb.h"

namespace tidemark::command {
namespace {

void PrintTable(const v1::TableDescription& table) {
  const v1::TableSchema& schema = table.table_schema();
  fmt::print("\n{}  (images: {}, current rows {})\n",
             TableNameText(schema.schema_name(), schema.table_name()),
             EnumText(v1::ImageLevel_Name(schema.image_level()), "IMAGE_LEVEL_"),
             table.rows_kept() ? "kept" : "not kept");
  std::vector<TextRow> rows = {{"  COLUMN", "TYPE", "FORM", "KEY"}};
  for (int i = 0; i < schema.columns_size(); ++i) {
    const v1::Column& column = schema.columns(i);
    const auto key = std::find(schema.key_columns().begin(), schema.key_columns().end(),
                               static_cast<uint32_t>(i));
    rows.push_back({"  " + column.name(), column.source_type(),
                    EnumText(v1::ValueForm_Name(column.form()), "VALUE_FORM_"),
                    key == schema.key_columns().end()
                        ? ""
                        : std::to_string(key - schema.key_columns().begin() + 1)});
  }
  fmt::print("{}", TextTable(rows));
  for (const std::string& note : table.notes()) fmt::print("  note: {}\n", note);
}

void PrintFeed(const v1::DescribeFeedResponse& feed) {
  fmt::print("feed {}: {}, completeness {}, generation {}\n", feed.feed(), feed.engine(),
             EnumText(v1::CompletenessClass_Name(feed.completeness()), "COMPLETENESS_CLASS_"),
             feed.generation());
  for (const v1::TableDescription& table : feed.tables()) PrintTable(table);
}

}  // namespace

void AddDescribe(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  struct Options {
    std::string feed;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("describe", "Shows the tables of a feed, and what it promises");
  command->fallthrough();
  command->add_option("FEED", options->feed, "Feed")->required();
  command->add_flag("--json", options->json, "DescribeFeedResponse as JSON");
  command->callback([&server, exit_code, options] {
    v1::DescribeFeedRequest request;
    request.set_feed(options->feed);
    *exit_code = Call<v1::ChangeFeed>(server, &v1::ChangeFeed::Stub::DescribeFeed, request,
                                      [&](const v1::DescribeFeedResponse& feed) {
                                        options->json ? PrintJson(feed) : PrintFeed(feed);
                                      });
  });
}

}  // namespace tidemark::command
