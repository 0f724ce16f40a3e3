// The commands, one per file. Each adds itself to the program; what it ran comes back as the exit
// code in `*exit_code`.
#pragma once

#include <CLI/CLI.hpp>

#include "client/channel.h"

namespace tidemark::command {

void AddTail(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddExport(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddStatus(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddDescribe(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddStop(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddRecover(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddFeed(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
// Below the command that AddFeed adds.
void AddFeedPause(CLI::App& feeds, const client::ChannelOptions& server, int* exit_code);
void AddFeedDrop(CLI::App& feeds, const client::ChannelOptions& server, int* exit_code);
void AddTable(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddVerify(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddStreams(CLI::App& app, const client::ChannelOptions& server, int* exit_code);
void AddCursor(CLI::App& app, const client::ChannelOptions& server, int* exit_code);

}  // namespace tidemark::command
