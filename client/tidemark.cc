// tidemark: the command line for those who read feeds and look after them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <system_error>

#include "client/command/commands.h"
#include "client/command/exit_code.h"
#include "client/command/server_options.h"

namespace {

int RunProgram(int argc, char** argv) {
  using namespace tidemark::command;
  CLI::App app("Reads the feeds of a Tidemark server, and shows how they are.");
  app.set_version_flag("--version", TIDEMARK_VERSION);
  app.require_subcommand(1);
  app.footer(kExitCodesHelp);
  tidemark::client::ChannelOptions server;
  AddServerOptions(app, &server);
  int exit_code = kDone;
  AddTail(app, server, &exit_code);
  AddExport(app, server, &exit_code);
  AddStatus(app, server, &exit_code);
  AddDescribe(app, server, &exit_code);
  AddStop(app, server, &exit_code);
  AddRecover(app, server, &exit_code);
  AddFeed(app, server, &exit_code);
  AddTable(app, server, &exit_code);
  AddVerify(app, server, &exit_code);
  AddStreams(app, server, &exit_code);
  AddCursor(app, server, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe is an error of write, not the death of the program: the cursor is stored first.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that may not grow any more.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return RunProgram(argc, argv);
  } catch (const std::system_error& error) {
    // Whoever read the output has seen enough.
    if (error.code() == std::errc::broken_pipe) return tidemark::command::kDone;
    fmt::print(stderr, "tidemark: {}\n", error.what());
    return tidemark::command::kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tidemark: {}\n", error.what());
    return tidemark::command::kFailed;
  }
}
