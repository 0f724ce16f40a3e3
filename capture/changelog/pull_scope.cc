#include "capture/changelog/pull_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "capture/postgres/xid_snapshot.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

// What the snapshot sees, without anything from `xmax` on.
Snapshot Ending(Snapshot snapshot, uint64_t xmax) {
  if (snapshot.xmax <= xmax) return snapshot;
  std::erase_if(snapshot.in_progress, [&](uint64_t xid) { return xid >= xmax; });
  snapshot.xmax = xmax;
  snapshot.xmin = snapshot.in_progress.empty() ? xmax : snapshot.in_progress.front();
  return snapshot;
}

}  // namespace

absl::StatusOr<Snapshot> Snapshot::Parse(std::string_view text) {
  const absl::StatusOr<postgres::XidSnapshot> parsed = postgres::XidSnapshot::Parse(text);
  if (!parsed.ok()) return parsed.status();
  return Snapshot{
      .xmin = parsed->xmin(), .xmax = parsed->xmax(), .in_progress = parsed->in_progress()};
}

std::string Snapshot::Text() const {
  return fmt::format("{}:{}:{}", xmin, xmax, fmt::join(in_progress, ","));
}

absl::StatusOr<PullScope> ScopeOf(const v1::ChangelogCheckpoint& told, Strategy strategy,
                                  const Snapshot& now) {
  PullScope scope;
  if (strategy == Strategy::kXidWatermark) {
    scope.by_xid = true;
    scope.from_xid = told.watermark_xid() == 0 ? 0 : told.watermark_xid() + 1;
    scope.below_xid = now.xmin;
    return scope;
  }
  if (!told.snapshot().empty()) {
    absl::StatusOr<Snapshot> before = Snapshot::Parse(told.snapshot());
    if (!before.ok()) return before.status();
    scope.xids = std::move(before->in_progress);
    scope.from_xid = before->xmax;
  }
  if (told.pulling().empty()) return scope;
  const absl::StatusOr<Snapshot> pulling = Snapshot::Parse(told.pulling());
  if (!pulling.ok()) return pulling.status();
  scope.below_xid = pulling->xmax;
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
  const absl::StatusOr<Snapshot> pulling = Snapshot::Parse(told->pulling());
  if (!pulling.ok()) return pulling.status();
  told->clear_pulling();
  told->clear_told_seq();
  told->clear_told_xid();
  // Nothing was ever told: nothing is taken for told.
  if (told->watermark_xid() > 0) {
    told->set_snapshot(Ending(*pulling, told->watermark_xid() + 1).Text());
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
  told->set_snapshot(told->watermark_xid() == 0 ? "" : Snapshot{.xmin = next, .xmax = next}.Text());
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
