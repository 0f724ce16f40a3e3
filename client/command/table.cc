#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

struct Options {
  std::string feed;
  std::string table;
  std::vector<std::string> tables;
  bool truncate = false;
};

constexpr char kTaken[] = "taken; tidemark status {} shows what becomes of it\n";

CLI::App* AddOne(CLI::App* parent, const std::string& name, const std::string& help,
                 Options* options) {
  CLI::App* const command = parent->add_subcommand(name, help);
  command->fallthrough();
  command->add_option("FEED", options->feed, "The feed")->required();
  return command;
}

}  // namespace

void AddTable(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const tables = app.add_subcommand("table", "Changes the tables of a running feed");
  tables->fallthrough();
  tables->require_subcommand(1);

  CLI::App* const add =
      AddOne(tables, "add", "Captures a table from now on, with the rows it has", options.get());
  add->add_option("TABLE", options->table, "schema.table, exactly")->required();
  add->callback([&server, exit_code, options] {
    v1::AddTableRequest request;
    request.set_feed(options->feed);
    request.set_table(options->table);
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::AddTable, request,
        [&](const v1::AddTableResponse&) { fmt::print(kTaken, options->feed); });
  });

  CLI::App* const remove = AddOne(tables, "remove", "Captures a table no longer", options.get());
  remove->add_option("TABLE", options->table, "schema.table, exactly")->required();
  remove->add_flag("--truncate", options->truncate,
                   "Tells subscribers that the table is empty; else its rows stay as they are");
  remove->callback([&server, exit_code, options] {
    v1::RemoveTableRequest request;
    request.set_feed(options->feed);
    request.set_table(options->table);
    request.set_truncate(options->truncate);
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::RemoveTable, request,
        [&](const v1::RemoveTableResponse&) { fmt::print(kTaken, options->feed); });
  });

  CLI::App* const read =
      AddOne(tables, "read", "Reads tables again beside the stream, and tells what differs",
             options.get());
  read->add_option("TABLE", options->tables, "schema.table, exactly")->required();
  read->callback([&server, exit_code, options] {
    v1::StartSnapshotRequest request;
    request.set_feed(options->feed);
    request.mutable_tables()->Add(options->tables.begin(), options->tables.end());
    *exit_code = Call<v1::FeedAdmin>(
        server, &v1::FeedAdmin::Stub::StartSnapshot, request,
        [&](const v1::StartSnapshotResponse&) { fmt::print(kTaken, options->feed); });
  });
}

}  // namespace tidemark::command
