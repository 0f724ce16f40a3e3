#include <fmt/format.h>

#include <memory>

#include "client/command/commands.h"
#include "client/command/server_options.h"
#include "client/command/source_status.h"
#include "client/command/text_table.h"
#include "tidemark/v1/admin.grpc.pb.h"

namespace tidemark::command {
namespace {

std::string StateText(v1::SourceState state) {
  return EnumText(v1::SourceState_Name(state), "SOURCE_STATE_");
}

std::string PositionText(const v1::PositionStatus& position) {
  if (!position.native_position().empty()) return position.native_position();
  return position.position().empty() ? "-" : position.position();
}

void PrintError(const v1::StatusError& error) {
  if (error.reason().empty()) return;
  fmt::print("  error {} at {} ({}): {}\n", error.reason(), TimeText(error.at()),
             error.retried() ? fmt::format("tried again, {} times so far", error.attempts())
                             : "needs a person",
             error.message());
}

void PrintSnapshot(const v1::SnapshotStatus& snapshot) {
  fmt::print("  snapshot: {} of about {} rows, {:.0f} rows/s, about {} left\n",
             snapshot.rows_done(), snapshot.rows_estimated(), snapshot.rows_per_second(),
             DurationText(snapshot.remaining()));
  for (const v1::TableSnapshotStatus& table : snapshot.tables()) {
    fmt::print("    {}: {} of about {} rows{}\n", table.table(), table.rows_done(),
               table.rows_estimated(), table.finished() ? ", finished" : "");
  }
}

void PrintSlot(const v1::SlotStatus& slot) {
  fmt::print("  slot {}: confirmed {}, WAL {}, retains {}", slot.name(), slot.confirmed_flush(),
             slot.wal_status().empty() ? "unknown" : slot.wal_status(),
             BytesText(slot.retained_bytes()));
  if (slot.has_headroom_bytes()) {
    fmt::print(", {} until the database gives it up", BytesText(slot.headroom_bytes()));
  }
  if (slot.has_headroom_time()) fmt::print(" (about {})", DurationText(slot.headroom_time()));
  if (slot.has_seen()) fmt::print(", seen {}", TimeText(slot.seen()));
  fmt::print("\n");
}

// Those that are not simply followed.
void PrintTables(const v1::FeedStatus& feed) {
  for (const v1::TableStatus& table : feed.tables()) {
    if (table.state() == v1::TABLE_FOLLOW_STATE_FOLLOWED) continue;
    fmt::print("  table {}: {}", table.table(),
               EnumText(v1::TableFollowState_Name(table.state()), "TABLE_FOLLOW_STATE_"));
    if (table.state() == v1::TABLE_FOLLOW_STATE_READING) {
      fmt::print(", {} of about {} rows, because {}", table.rows_read(), table.rows_estimated(),
                 table.detail());
    }
    fmt::print("\n");
    PrintError(table.error());
  }
}

void PrintDetails(const v1::FeedStatus& feed) {
  fmt::print("{}\n", feed.feed());
  if (!feed.detail().empty()) fmt::print("  {}\n", feed.detail());
  PrintError(feed.last_error());
  for (const v1::TableProblem& problem : feed.table_problems()) {
    fmt::print("  table {}: {}: {}\n", problem.table(), problem.reason(), problem.message());
  }
  if (feed.has_snapshot() && !feed.snapshot().has_finished()) PrintSnapshot(feed.snapshot());
  fmt::print("{}", SourceStatusText(feed));
  PrintTables(feed);
  if (!feed.slot().name().empty()) PrintSlot(feed.slot());
  if (feed.has_last_gap()) {
    fmt::print("  generation {}; gap at {}, from {} to {} ({}): {}: {}\n", feed.generation(),
               TimeText(feed.last_gap().at()), PositionText(feed.last_gap().from()),
               PositionText(feed.last_gap().to()),
               EnumText(v1::RecoveryPolicy_Name(feed.last_gap().policy()), "RECOVERY_POLICY_"),
               feed.last_gap().reason(), feed.last_gap().detail());
  }
  if (feed.has_stop()) {
    fmt::print("  stop at {}: {}, {}\n", feed.stop().requested(), PositionText(feed.stop().bound()),
               feed.stop().finished() ? "finished" : "not reached");
  }
  fmt::print(
      "  floor {}, checkpoint {}, progress {}, folded {}; captured {} transactions, {} "
      "changes\n",
      PositionText(feed.floor()), PositionText(feed.checkpoint()), PositionText(feed.progress()),
      PositionText(feed.folded()), feed.transactions_captured(), feed.changes_captured());
}

void PrintStatus(const v1::GetStatusResponse& status) {
  std::vector<TextRow> rows = {
      {"FEED", "SOURCE", "STATE", "HEAD", "BEHIND", "LAG", "LOG", "TRANSACTIONS", "STREAMS"}};
  for (const v1::FeedStatus& feed : status.feeds()) {
    rows.push_back({feed.feed(), feed.engine(), StateText(feed.source_state()),
                    PositionText(feed.head()), BytesText(feed.lag().bytes()),
                    DurationText(feed.lag().time()), BytesText(feed.log_bytes()),
                    std::to_string(feed.log_transactions()), std::to_string(feed.streams())});
  }
  fmt::print("{}", TextTable(rows));
  for (const v1::FeedStatus& feed : status.feeds()) PrintDetails(feed);
  fmt::print("server {} since {}; {} streams{}; store {} uses {}, {} free\n",
             status.server_version(), TimeText(status.started()), status.streams(),
             status.draining() ? ", draining" : "", status.store().path(),
             BytesText(status.store().disk_bytes()), BytesText(status.store().disk_free_bytes()));
  PrintError(status.store().last_error());
}

}  // namespace

void AddStatus(CLI::App& app, const client::ChannelOptions& server, int* exit_code) {
  struct Options {
    std::string feed;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("status", "Shows how the feeds are");
  command->fallthrough();
  command->add_option("FEED", options->feed, "Only this feed");
  command->add_flag("--json", options->json, "GetStatusResponse as JSON");
  command->callback([&server, exit_code, options] {
    v1::GetStatusRequest request;
    request.set_feed(options->feed);
    *exit_code = Call<v1::FeedAdmin>(server, &v1::FeedAdmin::Stub::GetStatus, request,
                                     [&](const v1::GetStatusResponse& status) {
                                       options->json ? PrintJson(status) : PrintStatus(status);
                                     });
  });
}

}  // namespace tidemark::command
