#include "capture/changelog/pull_scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/reason.h"

namespace tidemark::capture::changelog {

using postgres::XidSnapshot;

absl::StatusOr<PullScope> ScopeOf(const v1::ChangelogCheckpoint& told, Strategy strategy,
                                  const XidSnapshot& now) {
  PullScope scope;
  if (strategy == Strategy::kXidWatermark) {
    scope.by_xid = true;
    scope.from_xid = told.watermark_xid() == 0 ? 0 : told.watermark_xid() + 1;
    scope.below_xid = now.xmin();
    return scope;
  }
  if (!told.snapshot().empty()) {
    absl::StatusOr<XidSnapshot> before = XidSnapshot::Parse(told.snapshot());
    if (!before.ok()) return before.status();
    scope.xids = before->in_progress();
    scope.from_xid = before->xmax();
  }
  if (told.pulling().empty()) return scope;
  const absl::StatusOr<XidSnapshot> pulling = XidSnapshot::Parse(told.pulling());
  if (!pulling.ok()) return pulling.status();
  scope.below_xid = pulling->xmax();
  scope.visible_in = told.pulling();
  scope.behind = ListedTransaction{.xid = told.told_xid(), .last_seq = told.told_seq()};
  return scope;
}

void BeginPull(const PullBegun& begun, const Settings& settings, v1::ChangelogCheckpoint* told) {
  if (settings.strategy == Strategy::kSnapshot && told->pulling().empty()) {
    told->set_pulling(begun.snapshot);
    told->set_told_seq(0);
    told->set_told_xid(0);
  }
  if (settings.strategy == Strategy::kXidWatermark) told->set_snapshot(begun.snapshot);
  told->set_highest_seq(settings.trim ? 0 : std::max(told->highest_seq(), begun.highest_seq));
  told->set_clock_us(begun.clock_us);
}

void TellTransaction(const ListedTransaction& transaction, v1::ChangelogCheckpoint* told) {
  told->set_transactions(told->transactions() + 1);
  told->set_told_seq(transaction.last_seq);
  told->set_told_xid(transaction.xid);
  // Of the strategy snapshot, the highest that was ever told.
  told->set_watermark_xid(std::max(told->watermark_xid(), transaction.xid));
}

absl::Status EndPull(Strategy strategy, v1::ChangelogCheckpoint* told) {
  if (strategy == Strategy::kXidWatermark) return absl::OkStatus();
  const absl::StatusOr<XidSnapshot> pulling = XidSnapshot::Parse(told->pulling());
  if (!pulling.ok()) return pulling.status();
  told->clear_pulling();
  told->clear_told_seq();
  told->clear_told_xid();
  // Nothing was ever told: nothing is taken for told.
  if (told->watermark_xid() > 0) {
    told->set_snapshot(pulling->EndingAt(told->watermark_xid() + 1).Text());
  }
  return absl::OkStatus();
}

absl::Status ChangeStrategy(Strategy strategy, v1::ChangelogCheckpoint* told) {
  if (told->strategy() == StrategyWord(strategy)) return absl::OkStatus();
  if (strategy == Strategy::kXidWatermark) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kChangelogUnusable,
        fmt::format("the feed was read by strategy {}, in whose order later transactions were told "
                    "before earlier ones: strategy xid_watermark could not tell which. Go on with "
                    "strategy snapshot, or drop the feed and begin anew",
                    told->strategy()));
  }
  // Everything up to the last one has ended, and was told.
  const uint64_t next = told->watermark_xid() + 1;
  told->set_snapshot(told->watermark_xid() == 0 ? "" : fmt::format("{0}:{0}:", next));
  told->set_strategy(std::string(StrategyWord(strategy)));
  told->clear_told_seq();
  told->clear_told_xid();
  return absl::OkStatus();
}

size_t WholeInPage(const std::vector<ListedTransaction>& listed, size_t first, uint64_t page_rows) {
  uint64_t rows = 0;
  size_t count = 0;
  for (size_t i = first; i < listed.size(); ++i, ++count) {
    rows += listed[i].rows;
    if (rows > page_rows) break;
  }
  return count;
}

}  // namespace tidemark::capture::changelog
