// PostgresSource: from Open to the end of the initial snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/source.h"
#include "capture/postgres/sql_text.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {

absl::StatusOr<std::optional<SlotFacts>> PostgresSource::LookAtSlot(absl::Time deadline) {
  absl::StatusOr<std::optional<SlotFacts>> slot = ReadSlot(catalog_.get(), slot_name_, deadline);
  if (slot.ok() && *slot) status_.Slot(**slot, absl::Now());
  return slot;
}

absl::Status PostgresSource::OpenWhole(const v1::Checkpoint& checkpoint) {
  absl::StatusOr<Position> position = Position::FromBytes(checkpoint.position());
  if (!position.ok()) return position.status();
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<std::optional<SlotFacts>> slot = LookAtSlot(deadline);
  if (!slot.ok()) return slot.status();
  start_ = position->engine_low();
  head_ = *position;
  consistent_ = checkpoint.postgres().consistent_lsn();
  snapshot_time_us_ = checkpoint.snapshot_time_us();
  if (absl::Status status = CheckStopAhead(stop_, start_); !status.ok()) return status;
  absl::Status goes_on = CheckGoesOn(checkpoint.postgres(), *slot, deadline);
  if (!goes_on.ok()) return goes_on;
  absl::StatusOr<std::optional<Publication>> publication =
      ReadPublication(catalog_.get(), publication_name_, deadline);
  if (!publication.ok()) return publication.status();
  if (!*publication) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kPublicationMissing,
        fmt::format("publication {} is gone: what the slot still holds cannot be decoded without "
                    "it, not even by one of the same name made now",
                    publication_name_),
        {{"publication", publication_name_}});
  }
  return StartStreaming();
}

absl::Status PostgresSource::OpenFresh(const v1::Checkpoint& checkpoint) {
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<std::optional<SlotFacts>> slot = ReadSlot(catalog_.get(), slot_name_, deadline);
  if (!slot.ok()) return slot.status();
  const v1::PostgresCheckpoint& recorded = checkpoint.postgres();
  const bool ours = checkpoint.snapshot_phase() == v1::SNAPSHOT_PHASE_PREPARING &&
                    recorded.slot() == slot_name_ &&
                    recorded.system_identifier() == server_.system_identifier &&
                    recorded.database() == server_.database;
  if (*slot && !ours) {
    return ErrorWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSlotForeign,
        fmt::format("slot {} exists, and this store knows nothing of it: it may be another "
                    "consumer's. Configure another slot name, or, if nobody needs it, run SELECT "
                    "pg_drop_replication_slot({})",
                    slot_name_, QuoteLiteral(slot_name_)),
        {{"slot", slot_name_}});
  }
  if (*slot) {
    if (absl::Status status = CheckSlotKind(**slot, server_.database); !status.ok()) return status;
    if (absl::Status status = CheckSlotFree(**slot); !status.ok()) return status;
  }
  // Whatever the slot's consistent point will be, it cannot lie before what is durable now.
  if (absl::Status status = CheckStopBehind(server_.flush_lsn); !status.ok()) return status;
  drop_slot_first_ = slot->has_value();
  absl::Status wanted = CheckPublication(catalog_.get(), publication_name_, selection_.configured(),
                                         server_.in_recovery, deadline);
  if (!wanted.ok()) return wanted;
  consistent_ = 0;
  snapshot_attempts_ = 0;
  Enter(Phase::kPreparing, "about to make the publication and the slot");
  return absl::OkStatus();
}

CaptureBatch PostgresSource::Prepare() {
  CaptureBatch batch;
  batch.checkpoint =
      CheckpointAt(Position::Of(generation_, uint64_t{0}), v1::SNAPSHOT_PHASE_PREPARING);
  Enter(Phase::kAwaitingConfirm, "waiting until the store has noted what is about to be made");
  return batch;
}

absl::Status PostgresSource::WaitForConfirm(absl::Time deadline) {
  return replication_->Wait(deadline).status();
}

absl::Status PostgresSource::CreateObjects() {
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  absl::StatusOr<Connection*> catalog = Catalog(deadline);
  if (!catalog.ok()) return catalog.status();
  if (drop_slot_first_) {
    if (absl::Status status = DropSlot(*catalog, slot_name_, deadline); !status.ok()) {
      return status;
    }
    drop_slot_first_ = false;
  }
  if (healing_) {
    absl::Status prepared = PreparePublicationAgain(*catalog, deadline);
    if (!prepared.ok()) return prepared;
  } else {
    absl::StatusOr<std::vector<SourceTable>> tables = PreparePublication(
        *catalog, publication_name_, selection_.configured(), server_.in_recovery, deadline);
    if (!tables.ok()) return tables.status();
    snapshot_tables_ = *std::move(tables);
    if (server_.in_recovery) {
      absl::StatusOr<std::unique_ptr<Connection>> holder =
          HoldRows(target_, &interruption_, deadline);
      if (!holder.ok()) return holder.status();
      rows_holder_ = *std::move(holder);
    }
  }
  const bool synced = server_.version >= kSyncedSlotsVersionMin && !server_.in_recovery;
  if (absl::Status status = SendCreateSlot(replication_.get(), slot_name_, synced); !status.ok()) {
    return status;
  }
  creation_began_ = waiting_asked_ = absl::Now();
  Enter(Phase::kCreatingSlot, fmt::format("making slot {}", slot_name_));
  return absl::OkStatus();
}

absl::Status PostgresSource::WaitForSlot(absl::Time deadline) {
  const absl::Time now = absl::Now();
  if (now - waiting_asked_ >= kWaitingPeriod) {
    waiting_asked_ = now;
    absl::StatusOr<Connection*> catalog = Catalog(now + kConnectTimeout);
    if (!catalog.ok()) return catalog.status();
    absl::StatusOr<std::string> cause =
        server_.in_recovery
            ? WhatStandbyWaitsFor(*catalog, now + kConnectTimeout)
            : WhatCreationWaitsFor(*catalog, replication_->backend_pid(), now + kConnectTimeout);
    if (!cause.ok()) return cause.status();
    if (server_.in_recovery && now - creation_began_ >= kStandbySlotTimeout) {
      return ErrorWithReason(
          absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
          fmt::format("slot {} could not be made on the standby in {}: {}. It "
                      "is tried again",
                      slot_name_, absl::FormatDuration(kStandbySlotTimeout), *cause));
    }
    if (!cause->empty()) Enter(Phase::kCreatingSlot, *cause);
  }
  absl::StatusOr<std::optional<CreatedSlot>> slot =
      CollectCreatedSlot(replication_.get(), std::min(deadline, waiting_asked_ + kWaitingPeriod));
  if (!slot.ok()) return slot.status();
  if (!*slot) return absl::OkStatus();
  return healing_ ? GoOnBehindGap((*slot)->consistent) : BeginSnapshot(**slot);
}

bool PostgresSource::KeepsRows(const v1::TableSchema& schema) const {
  if (schema.key_columns().empty()) return false;
  if (config_.has_rows() && !config_.rows()) return false;
  return !MatchesAny(rows_off_, schema.schema_name(), schema.table_name());
}

absl::Status PostgresSource::HoldSnapshot(const CreatedSlot& slot, absl::Time deadline) {
  absl::StatusOr<Connection*> catalog = Catalog(deadline);
  if (!catalog.ok()) return catalog.status();
  absl::StatusOr<std::unique_ptr<SnapshotReader>> reader =
      SnapshotReader::Begin(target_, slot.snapshot, snapshot_tables_, silence_timeout_, *catalog,
                            &interruption_, deadline);
  if (!reader.ok()) return reader.status();
  snapshot_ = *std::move(reader);
  if (rows_holder_ != nullptr) {
    absl::Status released = ReleaseRows(std::move(rows_holder_), deadline);
    if (!released.ok()) return released;
  }
  // The tables are held against changes of their definition, but for new partitions.
  absl::Status looked = LookBeforeSnapshot(*catalog, deadline);
  return looked.ok() ? snapshot_->CheckNotRewritten(*catalog, deadline) : looked;
}

absl::Status PostgresSource::BeginSnapshot(const CreatedSlot& slot) {
  const absl::Time deadline = absl::Now() + kConnectTimeout;
  consistent_ = slot.consistent;
  if (absl::Status status = CheckStopBehind(consistent_); !status.ok()) return status;
  // The clock of a standby's log says how old its rows are at least, not at most.
  const std::optional<LogEnd> now = server_.in_recovery ? std::nullopt : AskForEnd();
  snapshot_time_us_ = absl::ToUnixMicros(now ? now->clock : absl::Now());
  absl::Status held = HoldSnapshot(slot, deadline);
  if (absl::IsAborted(held) && ++snapshot_attempts_ < kSnapshotAttemptsMax) {
    snapshot_.reset();
    drop_slot_first_ = true;
    Enter(Phase::kConfirmed,
          fmt::format("{}: beginning the snapshot again", std::string(held.message())));
    return absl::OkStatus();
  }
  if (absl::IsAborted(held)) {
    return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                           fmt::format("{}, {} times; it is tried again",
                                       std::string(held.message()), kSnapshotAttemptsMax));
  }
  if (!held.ok()) return held;
  for (SnapshotTable& table : snapshot_->tables()) {
    table.rows_kept = KeepsRows(table.relation.schema);
  }
  status_.GoesOnBehind(consistent_);
  status_.SnapshotBegan(snapshot_->tables(), absl::Now());
  Enter(Phase::kSnapshot, fmt::format("reading the rows as of {}", LsnText(consistent_)));
  return absl::OkStatus();
}

absl::StatusOr<CaptureBatch> PostgresSource::ReadSnapshot(absl::Time deadline) {
  // One made transaction per snapshot, and no stream beside it: any handle is unique.
  constexpr uint64_t kMadeHandle = UINT64_MAX;
  CaptureBatch batch;
  absl::Status status = snapshot_->ReadSome(deadline, kBatchBytesMax, kMadeHandle, &batch.events);
  if (!status.ok()) return status;
  status_.SnapshotProgress(snapshot_->tables(), absl::Now());
  // Nothing is confirmed meanwhile, and the slot keeps all that is written.
  RefreshSlotFacts(absl::Now());
  if (snapshot_->done()) {
    const Position consistent = Position::Of(generation_, consistent_);
    batch.events.push_back(SnapshotWhole{consistent});
    v1::CommitRecord record;
    record.set_origin(v1::ORIGIN_SNAPSHOT);
    record.set_commit_time_us(absl::ToUnixMicros(absl::Now()));
    const bool made = snapshot_->FinishMade(kMadeHandle, consistent.WithOrdinal(1),
                                            std::move(record), &batch.events);
    batch.checkpoint =
        CheckpointAt(made ? consistent.WithOrdinal(1) : consistent, v1::SNAPSHOT_PHASE_WHOLE);
    NoteSnapshotStates(&batch);
    head_ = *Position::FromBytes(batch.checkpoint->position());
    snapshot_.reset();
    start_ = consistent_;
    Enter(Phase::kStartStreaming, "the snapshot is whole");
  }
  return batch;
}

}  // namespace tidemark::capture::postgres
