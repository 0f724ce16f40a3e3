#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/interrupt.h"
#include "client/command/output.h"
#include "client/command/server_options.h"
#include "client/command/verify_print.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

constexpr char kVerifyHelp[] =
    "Compares the current rows of the feed with the source while capture goes on, and names the\n"
    "keys that differ. Changes nothing, here or there.\n\n"
    "missing: only the source has the row; extra: only the feed has it; different: columns hold\n"
    "other values; incomplete: the feed was never told what columns hold. Rows that were changed\n"
    "each time they were looked at are counted as not compared; nothing is known of them.\n"
    "Each row is compared where the feed stands at that moment; rows that come meanwhile may be\n"
    "left out. What subscribers made of the feed, and what the log held before, it cannot tell.\n\n"
    "Exit codes: 0 equal; 6 differences were found; 7 none was found, but not everything could be\n"
    "compared (a table without kept rows or without a key, rows that changed too often, an\n"
    "interruption); else as for every command.";

struct Options {
  std::string feed;
  std::vector<std::string> tables;
  std::string format = "text";
};

int Verify(const client::ChannelOptions& server, const Options& options) {
  Interrupt interrupt;
  const std::string where = fmt::format("{}, feed {}", server.server, options.feed);
  const auto channel = client::MakeChannel(server);
  if (!channel.ok()) return Report(channel.status(), where);
  v1::VerifyRequest request;
  request.set_feed(options.feed);
  request.mutable_tables()->Add(options.tables.begin(), options.tables.end());

  grpc::ClientContext context;
  const auto stub = v1::FeedAdmin::NewStub(*channel);
  const auto reader = stub->Verify(&context, request);
  interrupt.OnSignal([&context] { context.TryCancel(); });
  Output output(STDOUT_FILENO, interrupt.fd());
  VerifyVerdict verdict;
  absl::Status written;
  for (v1::VerifyResponse record; written.ok() && reader->Read(&record);) {
    verdict.Take(record);
    written = output.AddLine(options.format == "jsonl" ? VerifyJson(record) : VerifyText(record));
    // Nobody is to wait for what is known.
    if (written.ok()) written = output.Flush(/*sync=*/false);
  }
  if (!written.ok()) context.TryCancel();
  const grpc::Status end = reader->Finish();
  interrupt.Forget();
  if (output.is_closed() || (written.ok() && end.error_code() == grpc::StatusCode::CANCELLED)) {
    return kUndecided;
  }
  if (!written.ok()) return Report(written, where);
  if (!end.ok()) return Report(client::FromGrpcStatus(end), where);
  return verdict.exit_code();
}

}  // namespace

void AddVerify(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("verify", "Compares the rows of a feed with the source");
  command->fallthrough();
  command->footer(kVerifyHelp);
  command->add_option("FEED", options->feed, "Feed")->required();
  command->add_option("TABLE", options->tables,
                      "schema.table, exact or with * and ?; none: all tables of the feed");
  command->add_option("--format", options->format, "text or jsonl")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->capture_default_str();
  command->callback([&server, exit_code, options] { *exit_code = Verify(server, *options); });
}

}  // namespace tidemark::command
