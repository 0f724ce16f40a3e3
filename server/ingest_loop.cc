#include "server/ingest_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/reason.h"
#include "server/feed_drop.h"
#include "server/limits.h"
#include "server/recovery.h"
#include "server/retry_policy.h"
#include "server/rows_policy.h"
#include "server/tail_hub.h"

namespace tidemark {
namespace {

absl::Status RefusalOfOrders(const absl::Status& ended) {
  if (ended.ok()) {
    return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining,
                           "the server is stopping; order it again when it is back");
  }
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, ReasonOf(ended),
      "capture is stopped by an error that needs a person, so it takes no order: " +
          std::string(ended.message()));
}

std::string PausedText(const Feed& feed) {
  return absl::StrCat(
      "by order; tidemark feed resume ", feed.name(), " goes on",
      feed.store().checkpoint().has_postgres()
          ? ". Its slot keeps the source's log meanwhile; what it retains was looked up before"
          : "");
}

bool NothingRead(const capture::CaptureBatch& batch) {
  return batch.events.empty() && !batch.checkpoint;
}

}  // namespace

IngestLoop::IngestLoop(Feed& feed, EventLog& log, IngestObserver observer)
    : feed_(feed),
      log_(log),
      observer_(std::move(observer)),
      writer_(feed.store(), feed.tail(), WantsBeforeOf(feed.config()),
              [this] { return stopping(); }),
      known_rows_(feed.store()),
      stop_(feed, writer_),
      breaks_(feed, log),
      keeper_(feed, log, [this](IngestStep step) { return Observe(step); }),
      random_(std::random_device()()) {
  feed_.source().UseKnownRows(&known_rows_);
}

void IngestLoop::Run() {
  absl::Status ended;
  while (!stopping()) {
    keeper_.Serve();
    if (ends()) break;
    if (keeper_.paused()) {
      RestPaused();
      continue;
    }
    ended = stop_.Serve(false);
    if (ended.ok() && feed_.stop().finished()) {
      RestFinished();
      continue;
    }
    if (ended.ok()) ended = Follow();
    if (crashed_) return;
    feed_.source().Close();
    if (!ended.ok()) ended = breaks_.OnEnded(ended);
    if (!ended.ok() && !WaitToRetry(ended)) break;
  }
  if (crashed_) return;
  feed_.capture().Stopped();
  const bool failed = feed_.capture().phase() == CapturePhase::kFailed;
  const absl::Status refusal = feed_.dropped() ? DroppedFeedUnknown(feed_.name())
                                               : RefusalOfOrders(failed ? ended : absl::OkStatus());
  feed_.stop().Close(refusal);
  feed_.recovery().Close(refusal);
  feed_.orders().Close(refusal);
}

bool IngestLoop::RestFailed(const absl::Status& error) {
  const bool is_break = breaks_.WaitsForOrder(error);
  feed_.stop().Close(RefusalOfOrders(error));
  if (!is_break) feed_.recovery().Close(RefusalOfOrders(error));
  keeper_.TakeResumed();
  while (!stopping()) {
    keeper_.Serve();
    if (ends()) return false;
    if (keeper_.TakeResumed() || keeper_.paused() || (is_break && breaks_.ServeStopped())) {
      feed_.stop().Reopen();
      if (!is_break) feed_.recovery().Reopen();
      failures_ = 0;
      return true;
    }
    feed_.wake().WaitUntil(absl::InfiniteFuture());
    feed_.wake().Answer();
  }
  return false;
}

void IngestLoop::RestPaused() {
  feed_.capture().Paused(PausedText(feed_));
  while (!ends() && keeper_.paused()) {
    breaks_.RefuseOrders();
    ServeStopClosed();
    feed_.wake().WaitUntil(absl::InfiniteFuture());
    feed_.wake().Answer();
    keeper_.Serve();
  }
  failures_ = 0;
}

void IngestLoop::ServeStopClosed() {
  if (auto served = stop_.Serve(false); !served.ok()) {
    log_.Error("cannot note where to stop", {{"feed", feed_.name()},
                                             {"reason", ReasonOf(served)},
                                             {"message", std::string(served.message())}});
  }
}

void IngestLoop::RestFinished() {
  const v1::StopRecord record = feed_.stop().record();
  const Position bound = Position::FromBytes(record.bound()).value_or(Position());
  const std::string where = feed_.source().NativeText(bound);
  log_.Info("source finished", {{"feed", feed_.name()}, {"bound", where}});
  feed_.bounds().Finish(bound);
  feed_.capture().Finished("ended at " + where + ", as " + record.requested() + " was asked for");
  while (!stopping() && feed_.stop().finished()) {
    feed_.wake().WaitUntil(absl::InfiniteFuture());
    feed_.wake().Answer();
    if (keeper_.HasOrders()) break;
    breaks_.RefuseOrders();
    ServeStopClosed();
  }
  feed_.bounds().Reopen();
}

absl::Status IngestLoop::Follow() {
  if (auto opened = Open(); !opened.ok()) return opened;
  while (!stopping() && !feed_.stop().finished() && !keeper_.WantsClosed()) {
    auto batch = Read();
    if (!batch.ok()) return batch.status();
    if (!NothingRead(*batch)) {
      if (auto status = Ingest(*std::move(batch)); !status.ok()) return status;
    }
    failures_ = 0;
    feed_.capture().Healthy();
  }
  return absl::OkStatus();
}

// What bounded readers ask of the source comes before what it sends.
absl::StatusOr<capture::CaptureBatch> IngestLoop::Read() {
  feed_.wake().Answer();
  if (keeper_.WantsClosed()) return capture::CaptureBatch();
  breaks_.RefuseOrders();
  if (auto served = stop_.Serve(true); !served.ok()) return served;
  absl::Time now = absl::Now();
  BoundDesk::Errands errands = feed_.bounds().Look(now, feed_.tail().proved());
  if (errands.sample) {
    std::optional<capture::LogEnd> end = feed_.source().SampleEnd();
    if (end && end->checkpoint) {
      capture::CaptureBatch kept;
      kept.checkpoint = *std::move(end->checkpoint);
      if (auto status = Ingest(std::move(kept)); !status.ok()) return status;
    }
    feed_.bounds().Sampled(end, now);
    now = absl::Now();
    errands = feed_.bounds().Look(now, feed_.tail().proved());
  }
  feed_.source().Prove(errands.prove);
  if (!feed_.wake().BeginRead()) return capture::CaptureBatch();
  auto batch = feed_.source().Read(std::min(
      {now + absl::Milliseconds(limits::read_wait_idle_max_ms), errands.again, stop_.again()}));
  feed_.wake().EndRead();
  return batch;
}

absl::Status IngestLoop::Open() {
  if (auto status = writer_.Reset(); !status.ok()) return status;
  // What an earlier connection, or an earlier life of the server, appended may not be on disk yet,
  // and the source takes the checkpoint it is opened with for durable.
  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  feed_.capture().Running();
  if (auto status = stop_.Begin(); !status.ok()) return status;
  log_.Info("source opening", {{"feed", feed_.name()}});
  feed_.source().Remember(feed_.store().table_states());
  auto opened = feed_.source().Open(feed_.store().checkpoint(), feed_.store().generation());
  publishes_before_sync_ = feed_.source().Describe().replays_exactly;
  return opened;
}

absl::Status IngestLoop::Ingest(capture::CaptureBatch batch) {
  if (auto status = Observe(IngestStep::kRead); !status.ok()) return status;

  // What was made here cannot be read again.
  const bool publishes_first = publishes_before_sync_ && !batch.made;
  const std::string notice = std::move(batch.notice);
  auto written = writer_.Write(std::move(batch));
  if (!written.ok()) return written.status();
  if (!written->visible) return absl::OkStatus();
  for (const v1::LostTable& lost : written->lost) {
    log_.Warning("table without current rows",
                 {{"feed", feed_.name()}, {"reason", lost.reason()}, {"message", lost.message()}});
  }
  const Position boundary = written->checkpoint;
  const std::optional<v1::StopRecord> finished = written->finished;
  const std::optional<v1::GapRecord> gap = written->gap;
  if (auto status = Observe(IngestStep::kAppended); !status.ok()) return status;

  if (publishes_first) {
    Publish(*std::move(written));
    if (auto status = Observe(IngestStep::kPublished); !status.ok()) return status;
  }

  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  if (auto status = Observe(IngestStep::kSynced); !status.ok()) return status;
  if (!notice.empty()) log_.Warning("source", {{"feed", feed_.name()}, {"notice", notice}});

  if (!publishes_first) {
    Publish(*std::move(written));
    if (auto status = Observe(IngestStep::kPublished); !status.ok()) return status;
  }

  if (gap) {
    if (auto status = BeginGeneration(*gap); !status.ok()) return status;
  }
  // Whatever becomes of the confirmation, the source is not opened again.
  if (finished) feed_.stop().Set(*finished);
  if (auto status = feed_.source().Confirm(boundary); !status.ok()) return status;
  return Observe(IngestStep::kConfirmed);
}

absl::Status IngestLoop::BeginGeneration(const v1::GapRecord& gap) {
  publishes_before_sync_ = feed_.source().Describe().replays_exactly;
  if (gap.reason().empty()) {
    log_.Info("the feed goes on in another generation, with nothing missing",
              {{"feed", feed_.name()},
               {"generation", std::to_string(feed_.store().generation())},
               {"detail", gap.detail()}});
    return stop_.Begin();
  }
  log_.Warning("the feed goes on behind a gap",
               {{"feed", feed_.name()},
                {"generation", std::to_string(feed_.store().generation())},
                {"reason", gap.reason()},
                {"recovery", RecoveryWord(gap.policy())},
                {"detail", gap.detail()}});
  feed_.stop().Set(writer_.stop());
  return stop_.Begin();
}

void IngestLoop::Publish(WrittenBatch written) {
  feed_.capture().Count(written.appended);
  feed_.tail().Publish(std::move(written.chunks), feed_.store().head(), written.proved);
}

absl::Status IngestLoop::Observe(IngestStep step) {
  if (!observer_) return absl::OkStatus();
  absl::Status status = observer_(step);
  crashed_ = !status.ok();
  return status;
}

bool IngestLoop::WaitToRetry(const absl::Status& error) {
  if (stopping()) return false;
  const absl::Time now = absl::Now();
  const EventFields fields = {{"feed", feed_.name()},
                              {"reason", ReasonOf(error)},
                              {"message", std::string(error.message())}};
  if (RetryFor(error) == Retry::kNever) {
    feed_.capture().Failed(error, now);
    log_.Error("source failed: needs a person", fields);
    return RestFailed(error);
  }
  feed_.capture().Retrying(error, ++failures_, now);
  log_.Warning("source lost: trying again", fields);
  const double chance = std::uniform_real_distribution<>(0, 1)(random_);
  const auto wait = absl::ToChronoMilliseconds(RetryWait(error, failures_, chance));
  return WaitUntil(now + absl::FromChrono(wait));
}

// Orders are taken meanwhile; false when the server stops.
bool IngestLoop::WaitUntil(absl::Time until) {
  while (!stopping()) {
    if (!feed_.wake().WaitUntil(until)) return true;
    feed_.wake().Answer();
    if (keeper_.HasOrders()) return true;
    breaks_.RefuseOrders();
    if (auto served = stop_.Serve(false); !served.ok()) return true;
  }
  return false;
}

void IngestLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  feed_.wake().Wake();
  feed_.source().Interrupt();
}

bool IngestLoop::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace tidemark
