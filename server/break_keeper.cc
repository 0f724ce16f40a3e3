#include "server/break_keeper.h"

#include <fmt/format.h>

#include <string>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "server/recovery.h"
#include "store/feed_store.h"

namespace tidemark {
namespace {

std::string TextOf(const absl::Status& error) { return std::string(error.message()); }

}  // namespace

absl::Status BreakKeeper::OnEnded(const absl::Status& error) {
  last_ = error;
  if (!feed_.store().snapshot_whole()) return error;
  const std::string why = ReasonOf(error);
  const v1::RecoveryPolicy policy = RecoveryPolicyOf(feed_.config().recovery());
  const BreakAnswer answer = AnswerTo(why, policy);
  if (answer == BreakAnswer::kNoBreak) return error;
  if (answer == BreakAnswer::kHeal) return Note(error, policy);
  if (answer == BreakAnswer::kNoteAndStop && !feed_.store().checkpoint().has_broken()) {
    if (auto noted = Note(error, v1::RECOVERY_POLICY_STOP); !noted.ok()) return noted;
  }
  return ErrorWithReason(
      error.code(), why,
      fmt::format("{}; {}", TextOf(error),
                  BreakRemedy(why, feed_.name(), feed_.source().Describe().engine)),
      DetailsOf(error));
}

bool BreakKeeper::WaitsForOrder(const absl::Status& error) const {
  return feed_.store().snapshot_whole() && IsBreak(ReasonOf(error));
}

bool BreakKeeper::ServeStopped() {
  const auto order = feed_.recovery().Take();
  if (!order) return false;
  const absl::Status noted = Note(last_, order->policy);
  order->done(noted);
  return noted.ok();
}

void BreakKeeper::RefuseOrders() {
  while (const auto order = feed_.recovery().Take()) {
    order->done(ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kRecoveryRefused,
        fmt::format("feed {} is not stopped by a break, so there is nothing to recover from; "
                    "tables are read again by FeedAdmin.StartSnapshot",
                    feed_.name()),
        {{"feed", feed_.name()}}));
  }
}

absl::Status BreakKeeper::Note(const absl::Status& error, v1::RecoveryPolicy policy) {
  store::AppendBatch batch;
  v1::Checkpoint& checkpoint = batch.checkpoint.emplace(feed_.store().checkpoint());
  v1::BreakRecord* broken = checkpoint.mutable_broken();
  // The first word on it is the one that was looked at closely.
  if (broken->reason() != ReasonOf(error)) {
    broken->Clear();
    broken->set_reason(ReasonOf(error));
    broken->set_message(TextOf(error));
    broken->set_time_us(absl::ToUnixMicros(absl::Now()));
  }
  broken->set_policy(policy);
  if (auto status = feed_.store().Append(batch); !status.ok()) return status;
  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  log_.Warning("the source's log broke off", {{"feed", feed_.name()},
                                              {"reason", broken->reason()},
                                              {"message", broken->message()},
                                              {"recovery", RecoveryWord(policy)}});
  return absl::OkStatus();
}

}  // namespace tidemark
