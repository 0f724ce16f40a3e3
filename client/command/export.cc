#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>

#include "client/channel.h"
#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/export_file.h"
#include "client/command/export_writer.h"
#include "client/command/interrupt.h"
#include "client/command/op_names.h"
#include "client/command/point.h"
#include "client/command/report.h"
#include "client/feed_client.h"
#include "proto/reason.h"

namespace tidemark::command {
namespace {

constexpr char kExportHelp[] =
    "Writes everything between two points of a feed into a file: FILE.part while it grows, FILE\n"
    "when everything up to the bound is in it and on the disk. Beside it FILE.manifest.json says\n"
    "what it holds: counts, SHA-256, first and last position, and the cursor with which the next\n"
    "export begins. Killed, or out of space, the same command goes on where it stopped, up to the\n"
    "same bound; each change is in the file once. Only in the rows of --from snapshot there is no\n"
    "place to go on from: they begin anew, and now is asked anew. A file that is there is never\n"
    "replaced.\n\n"
    "jsonl: as in tidemark tail. csv: one table; __op,__pos,__seq,__table,__absent, then its\n"
    "columns; NULL is empty, an empty text is \"\", bytes are base64, lists are JSON.";

struct Options {
  ExportRequest request;
  std::filesystem::path file;
  bool no_retry = false;
};

absl::StatusOr<v1::SubscribeRequest> RequestOf(const ExportState& state) {
  const ExportRequest& asked = state.request;
  v1::SubscribeRequest request;
  request.set_feed(asked.feed);
  request.set_label("tidemark export");
  for (const std::string& table : asked.tables) request.mutable_filter()->add_tables(table);
  for (const std::string& op : asked.ops) request.mutable_filter()->add_ops(OpNames().at(op));
  // An earlier run fixed both, unless it ended in the rows of a bootstrap: those that begin now are
  // newer than its bound may be.
  const bool fixed = !state.cursor.empty();
  const auto start = ParsePoint(fixed ? state.cursor : asked.from);
  if (!start.ok()) return start.status();
  *request.mutable_start() = *start;
  // The same time is the same bound; only now is not.
  const bool keeps_bound = fixed && asked.until == "now" && !state.bound.empty();
  const auto until = ParseBound(keeps_bound ? state.bound : asked.until);
  if (!until.ok()) return until.status();
  *request.mutable_until() = *until;
  return request;
}

absl::Status ReadFeed(const client::ChannelOptions& server, const Options& options,
                      ExportWriter& writer) {
  Interrupt interrupt;
  auto request = RequestOf(writer.state());
  if (!request.ok()) return request.status();
  const auto channel = client::MakeChannel(server);
  if (!channel.ok()) return channel.status();
  client::FeedClientOptions client_options;
  client_options.request = *std::move(request);
  client_options.retries = !options.no_retry;
  client::FeedClient feed(*channel, client_options);
  interrupt.OnSignal([&feed] { feed.Stop(); });
  const absl::Status end = feed.Run(writer);
  interrupt.Forget();
  if (!end.ok() || writer.is_finished()) return end;
  return absl::CancelledError("interrupted; the same command goes on where it stopped");
}

// What to do about the unfinished file, where the same command can never go on with it.
absl::Status WithRemedy(const absl::Status& end, const std::filesystem::path& file) {
  if (ReasonOf(end) != reason::kBoundBeforeSnapshot) return end;
  return ErrorWithReason(
      end.code(), ReasonOf(end),
      fmt::format("{}; nothing in {}.part is final: remove {}.part* before another command",
                  std::string_view(end.message().data(), end.message().size()), file.string(),
                  file.string()),
      DetailsOf(end));
}

int Export(const client::ChannelOptions& server, const Options& options) {
  const std::string where = fmt::format("{}, feed {}", server.server, options.request.feed);
  // Before anything is touched.
  ExportState asked;
  asked.request = options.request;
  if (auto request = RequestOf(asked); !request.ok()) {
    Report(request.status(), where);
    return kUsage;
  }
  auto file = ExportFile::Open(options.file, options.request);
  if (!file.ok()) return Report(file.status(), where);
  if (!(*file)->is_done() && !(*file)->saved().finished) {
    ExportWriter writer(**file);
    absl::Status end = ReadFeed(server, options, writer);
    // What was read is worth keeping, whatever ended it.
    if (end.ok() || writer.state() != (*file)->saved()) {
      if (auto saved = (*file)->SaveState(writer.state()); !saved.ok() && end.ok()) end = saved;
    }
    if (!end.ok()) return Report(WithRemedy(end, options.file), where);
  }
  if (!(*file)->is_done()) {
    if (auto done = (*file)->Finish((*file)->saved()); !done.ok()) return Report(done, where);
  }
  const ExportState& state = (*file)->saved();
  fmt::print("{}: {} rows, {} transactions, {} changes, {} bytes, up to {}\n",
             options.file.string(), state.rows, state.transactions, state.changes, state.bytes,
             state.bound.empty() ? state.request.until : state.bound);
  return kDone;
}

}  // namespace

void AddExport(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  options->request.from = "earliest";
  options->request.until = "now";
  options->request.format = "jsonl";
  CLI::App* const command =
      app.add_subcommand("export", "Writes a bounded stretch of a feed into a file");
  command->fallthrough();
  command->footer(kExportHelp);
  ExportRequest& request = options->request;
  command->add_option("FEED", request.feed, "Feed")->required();
  command->add_option("--out", options->file, "File to write")->required();
  command->add_option("--from", request.from, fmt::format("Where to begin: {}", kPointHelp))
      ->capture_default_str();
  command->add_option("--until", request.until, fmt::format("Where to end: {}", kBoundHelp))
      ->capture_default_str();
  command->add_option("--format", request.format, "jsonl or csv")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->capture_default_str();
  command
      ->add_option("--tables", request.tables,
                   "Only these tables: schema.table, exact or with * and ?")
      ->delimiter(',');
  command->add_option("--ops", request.ops, "Only these: insert, update, delete, truncate, read")
      ->delimiter(',')
      ->check(CLI::IsMember(OpNames()));
  command->add_flag("--no-retry", options->no_retry, "End when the stream breaks");
  command->callback([&server, exit_code, options] { *exit_code = Export(server, *options); });
}

}  // namespace tidemark::command
