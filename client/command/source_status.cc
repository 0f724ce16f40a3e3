#include "client/command/source_status.h"

#include <fmt/format.h>

#include "absl/time/time.h"
#include "client/command/text_table.h"
#include "proto/timestamps.h"

namespace tidemark::command {
namespace {

std::string OverlapText(const v1::PollStatus& poll) {
  std::string text = "  overlap " + DurationText(poll.overlap());
  if (!poll.has_overlap_needed()) return text + ": the source does not say what is needed\n";
  text += FromDuration(poll.overlap_needed()) > FromDuration(poll.overlap())
              ? fmt::format(": TOO SHORT, {} is needed: what is stamped before it is lost to polls",
                            DurationText(poll.overlap_needed()))
              : fmt::format(", {} is needed", DurationText(poll.overlap_needed()));
  if (!poll.overlap_held_by().empty()) text += " (" + poll.overlap_held_by() + ")";
  return text + "\n";
}

std::string ScanText(const v1::KeyScanStatus& scan) {
  const std::string found =
      fmt::format("{} rows read, {} missing, {} extra, {} different", scan.rows_read(),
                  scan.missing(), scan.extra(), scan.different());
  if (scan.running()) {
    return fmt::format("    key scan since {}: {}\n", TimeText(scan.started()), found);
  }
  return fmt::format("    key scan ended {}: {}\n", TimeText(scan.finished()), found);
}

std::string PolledTableText(const v1::PolledTableStatus& table) {
  std::string text = fmt::format(
      "  table {} by {}{}: {} rows read, {} late", table.table(), table.cursor_column(),
      table.bound().empty() ? "" : " up to " + table.bound(), table.rows_read(), table.late_rows());
  if (table.null_cursors() > 0) text += fmt::format(", {} without a cursor", table.null_cursors());
  if (table.poison_rows() > 0) {
    text += fmt::format(", {} poison", table.poison_rows());
    if (table.poison_keys_size() > 0) {
      text += fmt::format(" (keys {})",
                          fmt::join(table.poison_keys().begin(), table.poison_keys().end(), ", "));
    }
  }
  text += "\n";
  if (table.has_scan()) text += ScanText(table.scan());
  return text;
}

std::string PollText(const v1::PollStatus& poll) {
  std::string text = fmt::format("  {} polls", poll.polls());
  if (poll.has_last_began()) {
    text += fmt::format("; the last began {}, took {}, read {} rows, found {} changes",
                        TimeText(poll.last_began()), DurationText(poll.last_took()),
                        poll.last_rows_read(), poll.last_changes());
  }
  text += "\n" + OverlapText(poll);
  for (const v1::PolledTableStatus& table : poll.tables()) text += PolledTableText(table);
  return text;
}

std::string ChangelogText(const v1::ChangelogStatus& changelog) {
  std::string text = fmt::format("  changelog {}, strategy {}: {} pulls", changelog.table(),
                                 changelog.strategy(), changelog.pulls());
  if (changelog.has_last_began()) {
    text += fmt::format("; the last began {}, read {} rows", TimeText(changelog.last_began()),
                        changelog.last_rows_read());
  }
  text += fmt::format("; highest number {}", changelog.highest_seq());
  if (changelog.rows_trimmed() > 0) {
    text += fmt::format("; {} rows trimmed", changelog.rows_trimmed());
  }
  text += "\n";
  if (changelog.has_watermark_xid()) {
    text += fmt::format("  watermark {}: {} rows wait{}\n", changelog.watermark_xid(),
                        changelog.waiting_rows(),
                        changelog.held_by().empty() ? "" : " for " + changelog.held_by());
  }
  return text;
}

std::string MigrationText(const v1::MigrationStatus& migration) {
  std::string text = "  moved to the log: " + migration.phase();
  if (!migration.consistent_point().empty()) {
    text += fmt::format(", slot {} from {}", migration.slot(), migration.consistent_point());
  }
  if (!migration.message().empty()) text += "; " + migration.message();
  return text + "\n";
}

std::string InProgressText(const v1::InProgressStatus& held) {
  return fmt::format("  in progress: {} transactions, {}; {} committed, {} rolled back\n",
                     held.transactions(), BytesText(held.bytes()), held.committed(),
                     held.rolled_back());
}

}  // namespace

std::string SourceStatusText(const v1::FeedStatus& feed) {
  std::string text;
  if (feed.has_in_progress()) text += InProgressText(feed.in_progress());
  if (feed.has_poll()) text += PollText(feed.poll());
  if (feed.has_changelog()) text += ChangelogText(feed.changelog());
  if (feed.has_migration()) text += MigrationText(feed.migration());
  return text;
}

}  // namespace tidemark::command
