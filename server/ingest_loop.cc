#include "server/ingest_loop.h"

#include <utility>

#include "proto/reason.h"
#include "server/limits.h"
#include "server/retry_policy.h"
#include "server/rows_policy.h"
#include "server/tail_hub.h"

namespace tidemark {
namespace {

bool NothingRead(const capture::CaptureBatch& batch) {
  return batch.events.empty() && !batch.checkpoint;
}

}  // namespace

IngestLoop::IngestLoop(Feed& feed, EventLog& log, IngestObserver observer)
    : feed_(feed),
      log_(log),
      observer_(std::move(observer)),
      publishes_before_sync_(feed.source().Describe().replays_exactly),
      writer_(feed.store(), feed.tail(), WantsBeforeOf(feed.config())),
      known_rows_(feed.store()),
      random_(std::random_device()()) {
  feed_.source().UseKnownRows(&known_rows_);
}

void IngestLoop::Run() {
  while (!stopping()) {
    const absl::Status ended = Follow();
    if (crashed_) return;
    feed_.source().Close();
    if (ended.ok() || !WaitToRetry(ended)) break;
  }
  feed_.capture().Stopped();
}

absl::Status IngestLoop::Follow() {
  if (auto opened = Open(); !opened.ok()) return opened;
  while (!stopping()) {
    auto batch =
        feed_.source().Read(absl::Now() + absl::Milliseconds(limits::read_wait_idle_max_ms));
    if (!batch.ok()) return batch.status();
    if (!NothingRead(*batch)) {
      if (auto status = Ingest(*std::move(batch)); !status.ok()) return status;
    }
    failures_ = 0;
    feed_.capture().Healthy();
  }
  return absl::OkStatus();
}

absl::Status IngestLoop::Open() {
  if (auto status = writer_.Reset(); !status.ok()) return status;
  // What an earlier connection, or an earlier life of the server, appended may not be on disk yet,
  // and the source takes the checkpoint it is opened with for durable.
  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  feed_.capture().Running();
  log_.Info("source opening", {{"feed", feed_.name()}});
  return feed_.source().Open(feed_.store().checkpoint(), feed_.store().record().generation());
}

absl::Status IngestLoop::Ingest(capture::CaptureBatch batch) {
  if (auto status = Observe(IngestStep::kRead); !status.ok()) return status;

  auto written = writer_.Write(std::move(batch));
  if (!written.ok()) return written.status();
  if (!written->visible) return absl::OkStatus();
  const Position boundary = written->checkpoint;
  if (auto status = Observe(IngestStep::kAppended); !status.ok()) return status;

  if (publishes_before_sync_) {
    Publish(*std::move(written));
    if (auto status = Observe(IngestStep::kPublished); !status.ok()) return status;
  }

  if (auto status = feed_.store().Sync(); !status.ok()) return status;
  if (auto status = Observe(IngestStep::kSynced); !status.ok()) return status;

  if (!publishes_before_sync_) {
    Publish(*std::move(written));
    if (auto status = Observe(IngestStep::kPublished); !status.ok()) return status;
  }

  if (auto status = feed_.source().Confirm(boundary); !status.ok()) return status;
  return Observe(IngestStep::kConfirmed);
}

void IngestLoop::Publish(WrittenBatch written) {
  feed_.capture().Count(written.appended);
  feed_.tail().Publish(std::move(written.chunks), feed_.store().head());
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
    return false;
  }
  feed_.capture().Retrying(error, ++failures_, now);
  log_.Warning("source lost: trying again", fields);
  const double chance = std::uniform_real_distribution<>(0, 1)(random_);
  const auto wait = absl::ToChronoMilliseconds(RetryWait(error, failures_, chance));
  std::unique_lock lock(mutex_);
  return !stop_requested_.wait_for(lock, wait, [this] { return stopping_; });
}

void IngestLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_requested_.notify_all();
  feed_.source().Interrupt();
}

bool IngestLoop::stopping() const {
  std::lock_guard lock(mutex_);
  return stopping_;
}

}  // namespace tidemark
