// logdump: prints and verifies a store offline. Everything it does is in log_dump.h and verify.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "proto/reason.h"
#include "proto/value_json.h"
#include "store/log_dump.h"
#include "store/verify.h"

namespace {

using tidemark::Position;
using namespace tidemark::store;  // NOLINT(google-build-using-namespace)

// Exit codes.
constexpr int kFine = 0;
constexpr int kFindings = 1;
constexpr int kUsage = 2;
constexpr int kUnreadable = 3;

constexpr char kFooter[] = R"(
Nothing is ever written to the store; a server may run on it meanwhile.
verify finds what contradicts itself. It cannot say that nothing is missing: positions have gaps by nature.

Exit codes:
  0  done; verify found nothing wrong
  1  verify: the store was read, and something in it is wrong (each finding is printed)
  2  the command line is wrong
  3  the store cannot be opened or read)";

struct CommandLine {
  std::string path;
  std::string feed;
  std::string after;
  std::string until;
  std::string table;
  bool json = false;
  bool transactions_only = false;
  bool no_checksums = false;
  uint64_t findings_max = 100;
};

void Print(std::string_view line) {
  fwrite(line.data(), 1, line.size(), stdout);
  fputc('\n', stdout);
}

std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

int Fail(const absl::Status& status) {
  const std::string reason = tidemark::ReasonOf(status);
  fmt::print(stderr, "logdump: {}{}{}\n", MessageOf(status), reason.empty() ? "" : "  ", reason);
  return kUnreadable;
}

std::string CheckPosition(const std::string& text) {
  const auto position = Position::FromText(text);
  return position.ok() ? "" : std::string(MessageOf(position.status()));
}

std::string CheckTable(const std::string& text) {
  const auto pattern = tidemark::TablePattern::Parse(text);
  return pattern.ok() ? "" : std::string(MessageOf(pattern.status()));
}

DumpOptions ToOptions(const CommandLine& line) {
  DumpOptions options;
  options.store.path = line.path;
  options.json = line.json;
  options.transactions_only = line.transactions_only;
  if (!line.feed.empty()) options.feed = line.feed;
  if (!line.after.empty()) options.after = *Position::FromText(line.after);
  if (!line.until.empty()) options.until = *Position::FromText(line.until);
  if (!line.table.empty()) options.tables = *tidemark::TablePattern::Parse(line.table);
  return options;
}

std::string FindingLine(const Finding& finding, bool json) {
  if (!json) {
    return fmt::format("{}: {}{}{}", finding.check, finding.feed, finding.feed.empty() ? "" : ": ",
                       finding.text);
  }
  std::string text = "{\"__record\":\"finding\",\"check\":";
  tidemark::AppendJsonString(finding.check, &text);
  text += ",\"feed\":";
  tidemark::AppendJsonString(finding.feed, &text);
  if (finding.position) text += fmt::format(",\"position\":\"{}\"", finding.position->Text());
  if (finding.sequence) text += fmt::format(",\"sequence\":{}", *finding.sequence);
  text += ",\"text\":";
  tidemark::AppendJsonString(finding.text, &text);
  return text + "}";
}

int Verify(const CommandLine& line) {
  VerifyOptions options;
  options.store.path = line.path;
  options.checksums = !line.no_checksums;
  if (!line.feed.empty()) options.feed = line.feed;
  uint64_t printed = 0;
  const auto summary = VerifyStore(options, [&](const Finding& finding) {
    if (printed++ < line.findings_max) Print(FindingLine(finding, line.json));
  });
  if (!summary.ok()) return Fail(summary.status());
  if (line.json) {
    Print(fmt::format(
        "{{\"__record\":\"summary\",\"feeds\":{},\"transactions\":{},\"changes\":{},\"rows\":{},"
        "\"findings\":{}}}",
        summary->feeds, summary->transactions, summary->changes, summary->rows, summary->findings));
  } else {
    for (const std::string& note : summary->notes) Print("note: " + note);
    Print(fmt::format("{} feeds, {} transactions, {} changes, {} rows: {} findings", summary->feeds,
                      summary->transactions, summary->changes, summary->rows, summary->findings));
  }
  return summary->findings == 0 ? kFine : kFindings;
}

int Dump(const CommandLine& line, absl::Status (*dump)(const DumpOptions&, const PrintLine&)) {
  const absl::Status status = dump(ToOptions(line), Print);
  return status.ok() ? kFine : Fail(status);
}

CLI::App* AddCommand(CLI::App* app, const char* name, const char* what, CommandLine* line) {
  CLI::App* command = app->add_subcommand(name, what);
  command->add_option("path", line->path, "folder of the store")->required();
  command->add_option("--feed", line->feed, "only this feed");
  command->add_flag("--json", line->json, "one JSON object a line; integers keep all their digits");
  return command;
}

void AddTable(CLI::App* command, CommandLine* line) {
  command->add_option("--table", line->table, "only this table; globs: schema.order_*")
      ->check(CheckTable);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prints and verifies a store of Tidemark, offline and read-only.", "logdump");
  app.footer(kFooter);
  app.require_subcommand(1);
  CommandLine line;
  CLI::App* feeds = AddCommand(&app, "feeds", "feeds, their boundaries and checkpoints", &line);
  CLI::App* schemas = AddCommand(&app, "schemas", "table schemas and from where each holds", &line);
  CLI::App* show =
      AddCommand(&app, "show", "feeds, checkpoints, then transactions and changes in order", &line);
  show->add_option("--after", line.after, "behind this position (40 hexadecimal digits)")
      ->check(CheckPosition);
  show->add_option("--until", line.until, "up to and with this position")->check(CheckPosition);
  show->add_flag("--transactions", line.transactions_only, "transactions without their changes");
  CLI::App* rows = AddCommand(&app, "rows", "current rows", &line);
  for (CLI::App* command : {show, schemas, rows}) AddTable(command, &line);
  CLI::App* verify = AddCommand(
      &app, "verify", "order, commit records, schemas, spool, boundaries, rows, checksums", &line);
  verify->add_flag("--no-checksums", line.no_checksums, "do not read every block of every file");
  verify->add_option("--findings-max", line.findings_max, "how many findings are printed")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kFine : kUsage;
  }
  if (*feeds) return Dump(line, DumpFeeds);
  if (*schemas) return Dump(line, DumpSchemas);
  if (*show) return Dump(line, DumpLog);
  if (*rows) return Dump(line, DumpRows);
  return Verify(line);
}
