#include "capture/postgres/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/poll_text.h"
#include "proto/reason.h"
#include "proto/timestamps.h"

namespace tidemark::capture::postgres {
namespace {

absl::Duration SilenceTimeout(const v1::FeedConfig& config) {
  if (!config.postgres().has_silence_timeout()) return kSilenceTimeoutDefault;
  return FromDuration(config.postgres().silence_timeout());
}

absl::Duration CatalogPeriod(const v1::FeedConfig& config) {
  if (!config.postgres().has_catalog_period()) return kCatalogPeriodDefault;
  return FromDuration(config.postgres().catalog_period());
}

}  // namespace

PostgresSource::PostgresSource(const v1::FeedConfig& config, std::vector<TablePattern> tables,
                               std::vector<TablePattern> rows_off,
                               std::vector<TablePattern> before_images, std::string scratch_folder)
    : config_(config),
      rows_off_(std::move(rows_off)),
      selection_(std::move(tables)),
      before_images_(std::move(before_images)),
      slot_name_(SlotName(config)),
      publication_name_(PublicationName(config)),
      silence_timeout_(SilenceTimeout(config)),
      catalog_period_(CatalogPeriod(config)),
      status_(slot_name_, publication_name_),
      in_progress_(std::move(scratch_folder), "in_progress." + config.name()) {}

PostgresSource::~PostgresSource() { Close(); }

void PostgresSource::Enter(Phase phase, std::string cause) {
  phase_ = phase;
  v1::SourceState state = v1::SOURCE_STATE_CONNECTING;
  if (phase == Phase::kCreatingSlot) state = v1::SOURCE_STATE_WAITING;
  if (phase == Phase::kSnapshot) state = v1::SOURCE_STATE_SNAPSHOT;
  if (phase == Phase::kStreaming) state = v1::SOURCE_STATE_STREAMING;
  status_.SetState(state, std::move(cause));
}

absl::Status PostgresSource::Open(const v1::Checkpoint& checkpoint, uint32_t generation) {
  std::lock_guard lock(session_mutex_);
  CloseSessions();
  generation_ = generation;
  log_generation_ = checkpoint.migration().log_generation();
  behind_gap_ = false;
  // One that came too late for the last Read must not end this call.
  interruption_.Consume();
  absl::Status status = Connect();
  if (status.ok()) status = CheckStopPossible();
  if (status.ok()) {
    const bool whole = checkpoint.snapshot_phase() == v1::SNAPSHOT_PHASE_WHOLE;
    status = !whole                    ? OpenFresh(checkpoint)
             : checkpoint.has_broken() ? OpenBroken(checkpoint)
                                       : OpenWhole(checkpoint);
  }
  interruption_.Consume();
  return Failed(std::move(status));
}

// After an error the source is closed, and its status says why.
absl::Status PostgresSource::Failed(absl::Status status) {
  if (status.ok()) return status;
  CloseSessions();
  Enter(Phase::kClosed, std::string(status.message()));
  return status;
}

absl::Status PostgresSource::Connect() {
  target_ = TargetOf(config_);
  Enter(Phase::kClosed, fmt::format("connecting to {}", target_.Text()));
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<std::unique_ptr<Connection>> replication =
      Connection::Open(target_, Connection::Kind::kReplication, &interruption_, deadline);
  if (!replication.ok()) return replication.status();
  replication_ = *std::move(replication);
  absl::StatusOr<Connection*> catalog = Catalog(deadline);
  if (!catalog.ok()) return catalog.status();
  absl::StatusOr<ServerFacts> server = ReadServerFacts(replication_.get(), *catalog, deadline);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return CheckServer(server_);
}

absl::StatusOr<Connection*> PostgresSource::Catalog(absl::Time deadline) {
  if (catalog_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Connection>> catalog =
        Connection::Open(target_, Connection::Kind::kSql, &interruption_, deadline);
    if (!catalog.ok()) return catalog.status();
    catalog_ = *std::move(catalog);
  }
  return catalog_.get();
}

absl::StatusOr<CaptureBatch> PostgresSource::Read(absl::Time deadline) {
  std::lock_guard lock(session_mutex_);
  absl::StatusOr<CaptureBatch> batch = ReadPhase(deadline);
  interruption_.Consume();
  if (!batch.ok()) return Failed(batch.status());
  if (absl::Status status = CompleteBatch(&*batch); !status.ok()) return Failed(status);
  return batch;
}

absl::StatusOr<CaptureBatch> PostgresSource::ReadPhase(absl::Time deadline) {
  absl::Status status;
  switch (phase_) {
    case Phase::kClosed:
      return absl::FailedPreconditionError("the source is not open");
    case Phase::kPreparing:
      return healing_ ? PrepareHealing() : Prepare();
    case Phase::kAwaitingConfirm:
      status = WaitForConfirm(deadline);
      break;
    case Phase::kConfirmed:
      status = CreateObjects();
      break;
    case Phase::kCreatingSlot:
      status = WaitForSlot(deadline);
      break;
    case Phase::kSnapshot:
      return ReadSnapshot(deadline);
    case Phase::kHealed:
      return FinishHealing();
    case Phase::kStartStreaming:
      status = StartStreaming();
      break;
    case Phase::kStreaming:
      return ReadStream(deadline);
  }
  if (!status.ok()) return status;
  return CaptureBatch();
}

absl::Status PostgresSource::Confirm(const Position& durable) {
  std::lock_guard lock(session_mutex_);
  if (phase_ == Phase::kAwaitingConfirm) {
    Enter(Phase::kConfirmed, "making the publication and the slot");
  }
  if (phase_ != Phase::kStreaming) return absl::OkStatus();
  replies_->Confirmed(durable.engine_low());
  const absl::Time now = absl::Now();
  if (replies_->NextDue() > now) return absl::OkStatus();
  return Failed(Reply(now));
}

void PostgresSource::Close() {
  std::lock_guard lock(session_mutex_);
  CloseSessions();
}

void PostgresSource::CloseSessions() {
  keeper_.reset();
  if (phase_ == Phase::kStreaming && replies_->owes_confirmation()) {
    // The last word: what is durable is not sent again. Nothing depends on it.
    (void)Reply(absl::Now());
  }
  snapshot_.reset();
  healing_.reset();
  tables_keeper_.reset();
  streaming_.reset();
  in_progress_.Clear();
  if (std::exchange(streams_in_progress_, false)) status_.InProgress(in_progress_);
  replies_.reset();
  replication_.reset();
  catalog_.reset();
  identity_.reset();
  rows_holder_.reset();
  notice_.clear();
  if (phase_ != Phase::kClosed) Enter(Phase::kClosed, "closed");
}

void PostgresSource::FillStatus(v1::FeedStatus* status) const {
  status_.Fill(status, absl::Now());
  desk_.Fill(status);
}

SourceDescription PostgresSource::Describe() const {
  return {.engine = "postgres",
          .completeness = v1::COMPLETENESS_CLASS_LOG_EXACT,
          .replays_exactly = true};
}

std::string PostgresSource::NativeText(const Position& position) const {
  if (position.generation() < log_generation_) return PollText(position);
  return LsnText(position.engine_low());
}

absl::StatusOr<Position> PostgresSource::ParseNative(std::string_view text,
                                                     uint32_t generation) const {
  absl::StatusOr<Lsn> lsn = ParseLsn(text);
  if (!lsn.ok()) {
    return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kRequestInvalid,
                           std::string(lsn.status().message()));
  }
  return Position::Of(generation, *lsn);
}

v1::Checkpoint PostgresSource::CheckpointAt(const Position& position,
                                            v1::SnapshotPhase phase) const {
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(position.bytes()));
  checkpoint.set_snapshot_phase(phase);
  checkpoint.set_snapshot_time_us(snapshot_time_us_);
  v1::PostgresCheckpoint* postgres = checkpoint.mutable_postgres();
  postgres->set_system_identifier(server_.system_identifier);
  postgres->set_timeline(server_.timeline);
  postgres->set_database(server_.database);
  postgres->set_slot(slot_name_);
  postgres->set_publication(publication_name_);
  postgres->set_consistent_lsn(consistent_);
  postgres->set_fork(server_.fork);
  if (log_generation_ != 0) {
    checkpoint.mutable_migration()->set_log_generation(log_generation_);
  }
  postgres->set_publication_made(publication_made_);
  return checkpoint;
}

}  // namespace tidemark::capture::postgres
