#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client/channel.h"
#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/interrupt.h"
#include "client/command/op_names.h"
#include "client/command/output.h"
#include "client/command/point.h"
#include "client/command/report.h"
#include "client/command/tail_printer.h"
#include "client/cursor_store.h"
#include "client/feed_client.h"

namespace tidemark::command {
namespace {

const std::map<std::string, TailFormat> kFormats = {{"text", TailFormat::kText},
                                                    {"jsonl", TailFormat::kJsonl}};

constexpr char kTailHelp[] =
    "Prints a feed change by change, for ever unless an option ends it, and connects again when "
    "the\n"
    "stream breaks. Each change is printed once, in order; a transaction that is cut by the end "
    "of\n"
    "the program comes again from the cursor file.\n\n"
    "jsonl: one object per line with __op, __pos, __seq, __table and the columns. Integers are "
    "exact\n"
    "numbers (64-bit); decimals, times and JSON are strings with the source's own text; bytes are\n"
    "base64; NaN and the infinities are strings. NULL is null, an absent column is left out, "
    "__before\n"
    "holds the row before the change. A column whose name begins with __ gets one more _ in "
    "front.\n"
    "A line with __record is no change: gap (changes may be missing), rows_again (forget the rows "
    "of\n"
    "the snapshot so far), schema_change (from here on the table has other columns).";

struct Options {
  std::string feed;
  std::string from = "snapshot";
  std::string until;
  std::vector<std::string> tables;
  std::vector<std::string> ops;
  std::string format = "text";
  bool with_cursor = false;
  std::string cursor_file;
  std::optional<uint64_t> max_transactions;
  std::optional<uint64_t> max_changes;
  bool until_idle = false;
  bool no_retry = false;
  std::string label = "tidemark tail";
};

absl::StatusOr<v1::Start> StartOf(const Options& options, client::CursorStore* cursors) {
  if (cursors != nullptr) {
    const absl::StatusOr<std::optional<std::string>> stored = cursors->Load();
    if (!stored.ok()) return stored.status();
    if (stored->has_value()) return ParsePoint(**stored);
  }
  return ParsePoint(options.from);
}

v1::SubscribeRequest RequestOf(const Options& options) {
  v1::SubscribeRequest request;
  request.set_feed(options.feed);
  request.set_label(options.label);
  for (const std::string& table : options.tables) request.mutable_filter()->add_tables(table);
  for (const std::string& op : options.ops) request.mutable_filter()->add_ops(OpNames().at(op));
  return request;
}

int Tail(const client::ChannelOptions& server, const Options& options) {
  Interrupt interrupt;
  const std::string where = fmt::format("{}, feed {}", server.server, options.feed);
  std::optional<client::CursorFile> cursor_file;
  if (!options.cursor_file.empty()) cursor_file.emplace(options.cursor_file);
  client::CursorStore* const cursors = cursor_file ? &*cursor_file : nullptr;

  client::FeedClientOptions client_options;
  client_options.request = RequestOf(options);
  client_options.retries = !options.no_retry;
  const absl::StatusOr<v1::Start> start = StartOf(options, cursors);
  if (!start.ok()) return Report(start.status(), where);
  *client_options.request.mutable_start() = *start;
  if (!options.until.empty()) {
    const absl::StatusOr<v1::Until> until = ParseBound(options.until);
    if (!until.ok()) return Report(until.status(), where);
    *client_options.request.mutable_until() = *until;
  }

  const auto channel = client::MakeChannel(server);
  if (!channel.ok()) return Report(channel.status(), where);
  Output output(STDOUT_FILENO, interrupt.fd());
  TailPrinter printer({kFormats.at(options.format), options.with_cursor, options.max_transactions,
                       options.max_changes, options.until_idle, where},
                      output, cursors);
  client::FeedClient feed(*channel, client_options);
  interrupt.OnSignal([&feed] { feed.Stop(); });
  const absl::Status end = feed.Run(printer);
  interrupt.Forget();
  if (end.ok() || printer.is_finished() || output.is_closed()) return kDone;
  return Report(end, where);
}

}  // namespace

void AddTail(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const tail = app.add_subcommand("tail", "Prints the changes of a feed as they come");
  tail->fallthrough();
  tail->footer(kTailHelp);
  tail->add_option("FEED", options->feed, "Feed")->required();
  tail->add_option("--from", options->from,
                   fmt::format("Where to begin when there is no cursor file yet: {}", kPointHelp))
      ->capture_default_str();
  tail->add_option("--until", options->until,
                   fmt::format("End exactly at a bound: {}", kBoundHelp));
  tail->add_option("--tables", options->tables,
                   "Only these tables: schema.table, exact or with * and ?")
      ->delimiter(',');
  tail->add_option("--ops", options->ops, "Only these: insert, update, delete, truncate, read")
      ->delimiter(',')
      ->check(CLI::IsMember(OpNames()));
  tail->add_option("--format", options->format, "text or jsonl")
      ->check(CLI::IsMember(kFormats))
      ->capture_default_str();
  tail->add_flag("--with-cursor", options->with_cursor,
                 "The last line of every transaction carries the cursor behind it (__cursor)");
  tail->add_option("--cursor-file", options->cursor_file,
                   "Go on from the cursor in this file, and keep it behind what is printed");
  tail->add_option("--max-transactions", options->max_transactions,
                   "End after so many transactions; 0 prints the snapshot only");
  tail->add_option("--max-changes", options->max_changes,
                   "End behind the transaction with which so many changes are printed: a soft cap, "
                   "so that a larger transaction is printed whole")
      ->check(CLI::PositiveNumber);
  tail->add_flag("--until-idle", options->until_idle,
                 "End once everything that the server has was printed");
  tail->add_flag("--no-retry", options->no_retry, "End when the stream breaks");
  tail->add_option("--label", options->label, "Name of this stream in the server's status")
      ->capture_default_str();
  tail->callback([&server, exit_code, options] { *exit_code = Tail(server, *options); });
}

}  // namespace tidemark::command
