#include "capture/changelog/trimmer.h"

#include <utility>

#include "absl/time/clock.h"
#include "capture/source.h"
#include "proto/reason.h"

namespace tidemark::capture::changelog {
namespace {

using postgres::Connection;
using postgres::ResultRows;

// Waiting for a lock, a deadlock, a conflict with another writer of the changelog.
bool MayPass(const absl::Status& status) {
  const std::string state = DetailsOf(status)["sqlstate"];
  return IsRetried(status) || absl::IsCancelled(status) || state == "55P03" || state == "57014" ||
         state.starts_with("40");
}

}  // namespace

absl::StatusOr<PullScope> TrimScope(const v1::ChangelogCheckpoint& trimmed,
                                    const v1::ChangelogCheckpoint& durable, Strategy strategy) {
  PullScope scope;
  if (strategy == Strategy::kXidWatermark) {
    scope.from_xid = trimmed.watermark_xid() + 1;
    scope.below_xid = durable.watermark_xid() + 1;
    return scope;
  }
  if (!trimmed.snapshot().empty()) {
    absl::StatusOr<postgres::XidSnapshot> before = postgres::XidSnapshot::Parse(trimmed.snapshot());
    if (!before.ok()) return before.status();
    scope.xids = before->in_progress();
    scope.from_xid = before->xmax();
  }
  if (durable.snapshot().empty()) {
    scope.xids.clear();
    scope.below_xid = scope.from_xid;
    return scope;
  }
  const absl::StatusOr<postgres::XidSnapshot> told =
      postgres::XidSnapshot::Parse(durable.snapshot());
  if (!told.ok()) return told.status();
  scope.below_xid = told->xmax();
  scope.visible_in = durable.snapshot();
  return scope;
}

Trimmer::Trimmer(postgres::Target target, const Statements& statements, Strategy strategy,
                 postgres::Interruption* interruption)
    : target_(std::move(target)),
      statements_(statements),
      strategy_(strategy),
      interruption_(interruption) {}

void Trimmer::Durable(const v1::ChangelogCheckpoint& durable) {
  const bool moved = strategy_ == Strategy::kSnapshot
                         ? durable.snapshot() != trimmed_.snapshot()
                         : durable.watermark_xid() != trimmed_.watermark_xid();
  if (!moved) return;
  // A goal that was not reached yet is reached on the way to this one.
  goal_ = durable;
  wanted_ = true;
}

absl::StatusOr<uint64_t> Trimmer::Step(absl::Time now) {
  absl::StatusOr<uint64_t> deleted = Delete();
  if (deleted.ok()) {
    if (*deleted < kTrimRowsMax) {
      trimmed_ = goal_;
      wanted_ = false;
    }
    return deleted;
  }
  session_.reset();
  if (!MayPass(deleted.status())) return deleted.status();
  again_ = now + kTrimAgain;
  return 0;
}

absl::StatusOr<uint64_t> Trimmer::Delete() {
  const absl::StatusOr<PullScope> scope = TrimScope(trimmed_, goal_, strategy_);
  if (!scope.ok()) return scope.status();
  const absl::Time deadline = absl::Now() + kTrimTimeout;
  if (session_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Connection>> session =
        Connection::Open(target_, Connection::Kind::kSql, interruption_, deadline);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
  }
  constexpr char kDoing[] = "deleting what is durable here from the changelog";
  const absl::StatusOr<ResultRows> rows =
      session_->Query(statements_.Trim(*scope, kTrimRowsMax), kDoing, deadline);
  if (!rows.ok()) return rows.status();
  const uint64_t deleted = rows->empty() ? 0 : rows->Number(0, 0);
  const absl::Status ended = session_->Query(statements_.End(), kDoing, deadline).status();
  if (!ended.ok()) return ended;
  return deleted;
}

}  // namespace tidemark::capture::changelog
