#include "server/feed_keeper.h"

#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "capture/owned_objects.h"
#include "proto/reason.h"
#include "server/feed_drop.h"

namespace tidemark {

void FeedKeeper::Serve() {
  while (const auto order = feed_.orders().Take()) {
    if (crashed_) return;
    if (feed_.dropped()) {
      order->done(DroppedFeedUnknown(feed_.name()));
    } else if (order->kind == FeedOrder::Kind::kDrop) {
      order->done(Drop(order->keep_slot));
    } else {
      const absl::Status done = SetPaused(order->kind == FeedOrder::Kind::kPause);
      if (done.ok()) {
        order->done(v1::DropFeedResponse());
      } else {
        order->done(done);
      }
    }
  }
}

bool FeedKeeper::WantsClosed() {
  // It goes on already.
  const auto resumes = [](const FeedOrder& next) { return next.kind == FeedOrder::Kind::kResume; };
  while (feed_.orders().NextIs(resumes)) {
    feed_.orders().Take()->done(v1::DropFeedResponse());
  }
  return HasOrders();
}

absl::Status FeedKeeper::SetPaused(bool paused) {
  resumed_ = !paused;
  if (this->paused() == paused) return absl::OkStatus();
  store::AppendBatch batch;
  batch.checkpoint.emplace(feed_.store().checkpoint()).set_paused(paused);
  if (auto status = feed_.store().Append(batch); !status.ok()) return status;
  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  log_.Info(paused ? "feed paused" : "feed resumed", {{"feed", feed_.name()}});
  return absl::OkStatus();
}

absl::Status FeedKeeper::Observe(IngestStep step) {
  absl::Status status = observe_(step);
  crashed_ = !status.ok();
  return status;
}

absl::Status FeedKeeper::Note(const std::optional<v1::PostgresCheckpoint>& left) {
  absl::Status noted = feed_.store().BeginDrop(left);
  if (!noted.ok()) return noted;
  noted_ = true;
  return Observe(IngestStep::kDropNoted);
}

absl::StatusOr<capture::DropOutcome> FeedKeeper::DropAtSource(bool keep_slot) {
  const v1::Checkpoint checkpoint = feed_.store().checkpoint();
  if (keep_slot) {
    if (absl::Status noted = Note(std::nullopt); !noted.ok()) return noted;
    return capture::DropOutcome{.dropped = {}, .left = capture::OwnedObjects(checkpoint)};
  }
  const auto left = checkpoint.has_postgres() ? std::optional(checkpoint.postgres()) : std::nullopt;
  auto outcome = feed_.source().DropOwned(checkpoint, [&] { return Note(left); });
  if (outcome.ok() || crashed_) return outcome;
  return DropRefusedBy(outcome.status(), feed_.name(), capture::OwnedObjects(checkpoint));
}

// Noted, then dropped at the source, then gone from the store: behind the first step a crash ends
// in a feed that is gone, before it in one that is whole.
absl::StatusOr<v1::DropFeedResponse> FeedKeeper::Drop(bool keep_slot) {
  log_.Warning("dropping the feed", {{"feed", feed_.name()}});
  const auto outcome = DropAtSource(keep_slot);
  if (crashed_) return outcome.status();
  if (!outcome.ok()) return TakeBack(outcome.status());
  if (auto reached = Observe(IngestStep::kSourceDropped); !reached.ok()) return reached;
  feed_.SetDropped();
  v1::DropFeedResponse response;
  response.mutable_dropped()->Assign(outcome->dropped.begin(), outcome->dropped.end());
  response.mutable_left()->Assign(outcome->left.begin(), outcome->left.end());
  response.set_configured(true);
  log_.Warning("feed dropped", {{"feed", feed_.name()},
                                {"dropped", absl::StrJoin(outcome->dropped, ", ")},
                                {"left", absl::StrJoin(outcome->left, "; ")}});
  if (auto removed = feed_.store().Remove(); !removed.ok()) {
    return ErrorWithReason(removed.code(), ReasonOf(removed),
                           "feed " + feed_.name() +
                               " is dropped, but what is stored of it could not be removed; the "
                               "next start does that: " +
                               std::string(removed.message()),
                           DetailsOf(removed));
  }
  return response;
}

absl::Status FeedKeeper::TakeBack(const absl::Status& why) {
  log_.Warning(
      "feed not dropped",
      {{"feed", feed_.name()}, {"reason", ReasonOf(why)}, {"message", std::string(why.message())}});
  if (!std::exchange(noted_, false)) return why;
  const absl::Status taken_back = feed_.store().CancelDrop();
  if (taken_back.ok()) return why;
  return ErrorWithReason(taken_back.code(), ReasonOf(taken_back),
                         "feed " + feed_.name() +
                             " is dropped by the next start, since that could not be taken back: " +
                             std::string(taken_back.message()) +
                             ". Before: " + std::string(why.message()),
                         DetailsOf(taken_back));
}

}  // namespace tidemark
