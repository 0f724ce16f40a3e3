// TableKeeper: a table without a key, which is read whole and told in one transaction.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/table_keeper.h"
#include "proto/reason.h"
#include "proto/table_name.h"

namespace tidemark::capture::postgres {

bool TableKeeper::ReadsWhole(const Name& name, const v1::TableState& state) const {
  if (!state.has_reading() || state.reading().only_empties()) return false;
  return state.postgres().key_columns().empty() || keyless_.count(name) > 0;
}

void TableKeeper::StartWhole(absl::Time now) {
  if (whole_) return;
  for (auto& [name, state] : *lent_.states) {
    if (!ReadsWhole(name, state) || !MayRead(name, state, now)) continue;
    // What chunks told of it, when it had a key, is told anew: no row moves from or to that.
    if (state.reading().after_key_size() > 0) {
      state.mutable_reading()->clear_after_key();
      Touch(name);
    }
    ChunkOrder order{.table = tables_.at(name), .writers_before = state.reading().barrier_xid()};
    unseen_.Open({.oid = order.table.oid,
                  .schema = name.first,
                  .table = name.second,
                  .handle = lent_.streaming->NewHandle()});
    order.streamed = unseen_.streamed_before();
    whole_.emplace(name, lent_.streaming->NewHandle(),
                   std::make_unique<WholeReading>(target_, std::move(order), wake_));
    return;
  }
}

bool TableKeeper::WholeReady(Lsn proved) const {
  if (!whole_) return false;
  if (!unseen_.void_because().empty() || !whole_->overtaken_by.empty()) return true;
  const bool quiet = !lent_.streaming->in_transaction();
  if (whole_->rows) return quiet && proved >= whole_->begun->fence;
  return (quiet || whole_->begun) && whole_->reading->HasNews();
}

void TableKeeper::StepWhole(const Position& head, absl::Time now, CaptureBatch* batch,
                            std::optional<Position>* made) {
  const bool quiet = !lent_.streaming->in_transaction();
  // It may have been removed meanwhile.
  if (!ReadsWhole(whole_->name, StateOf(whole_->name))) return EndWhole(batch);
  if (!whole_->overtaken_by.empty()) return VoidWhole(whole_->overtaken_by, now, batch);
  if (!whole_->begun) {
    // What a snapshot sees is decided transaction by transaction.
    if (!quiet) return;
    if (auto begun = whole_->reading->TakeBegun()) BeginWhole(*std::move(begun), batch);
  }
  if (whole_ && !unseen_.void_because().empty()) {
    return VoidWhole(unseen_.void_because(), now, batch);
  }
  if (whole_ && !whole_->rows) TakeRows(now, batch);
  if (!whole_ || !whole_->rows || !quiet) return;
  if (lent_.streaming->proved() < whole_->begun->fence) return;
  if (!PartsAsSeen(whole_->name, whole_->rows->parts)) {
    look_due_ = now;
    return VoidWhole("it got partitions while its rows were read", now, batch);
  }
  *made = PlaceOfMade(head);
  EmitWhole(**made, now, batch);
}

void TableKeeper::BeginWhole(TableChunk begun, CaptureBatch* batch) {
  WaitFor(whole_->name, "");
  unseen_.Use(begun.snapshot);
  batch->events.push_back(SchemaSeen{begun.relation.schema});
  whole_->begun = std::move(begun);
}

void TableKeeper::TakeRows(absl::Time now, CaptureBatch* batch) {
  std::vector<EncodedRun> runs;
  // Not before it is known under which schema.
  if (whole_->begun) runs = whole_->reading->Take();
  if (!runs.empty()) {
    batch->events.push_back(LargePart{whole_->handle, std::move(runs)});
    whole_->in_parts = true;
  }
  if (whole_report_due_ <= now) {
    whole_report_due_ = now + kWholeReportPeriod;
    report_due_ = true;
  }
  if (auto end = whole_->reading->TakeEnd()) WholeRead(*std::move(end), now, batch);
}

void TableKeeper::WholeRead(absl::StatusOr<WholeRows> end, absl::Time now, CaptureBatch* batch) {
  if (end.ok() && end->waits_for.empty()) {
    whole_->rows = *std::move(end);
    return;
  }
  const Name name = whole_->name;
  EndWhole(batch);
  if (end.ok()) {
    not_before_[name] = now + kTableRetryPeriod;
    return WaitFor(name, end->waits_for);
  }
  if (absl::IsFailedPrecondition(end.status()) && ReasonOf(end.status()).empty()) {
    keyless_.erase(name);
  }
  ReadingFailed(name, end.status(), now);
}

void TableKeeper::EmitWhole(const Position& at, absl::Time now, CaptureBatch* batch) {
  v1::TableState& state = StateOf(whole_->name);
  state.clear_error_reason();
  state.clear_error_message();
  v1::CommitRecord record = std::move(whole_->rows->record);
  record.set_origin(state.reading().fresh() ? v1::ORIGIN_SNAPSHOT : v1::ORIGIN_RESYNC);
  record.set_commit_time_us(absl::ToUnixMicros(now));
  AddUnseen(&record, batch);
  state.mutable_reading()->set_rows_read(whole_->reading->rows_taken());
  state.mutable_reading()->set_changes_made(record.changes());
  batch->events.push_back(LargeCommitted{whole_->handle, at, std::move(record)});
  batch->emptied.push_back(whole_->name);
  batch->made = true;
  whole_attempts_.erase(whole_->name);
  whole_.reset();
  unseen_.Close();
  Finish(&state, now);
}

// What the snapshot does not see, behind its rows.
void TableKeeper::AddUnseen(v1::CommitRecord* record, CaptureBatch* batch) {
  const uint64_t behind = record->changes();
  const bool in_parts = unseen_.in_parts();
  std::vector<EncodedRun> runs = unseen_.Take();
  if (!in_parts) {
    for (EncodedRun& run : runs) run.first_sequence += behind;
  }
  const uint64_t handle = unseen_.subject().handle;
  if (!runs.empty()) {
    batch->events.push_back(LargePart{in_parts ? handle : whole_->handle, std::move(runs)});
  }
  if (in_parts) batch->events.push_back(LargeJoined{whole_->handle, handle, behind});
  record->set_changes(behind + unseen_.record().changes());
  record->set_bytes(record->bytes() + unseen_.record().bytes());
  for (const uint64_t id : unseen_.record().schema_ids()) {
    const auto& ids = record->schema_ids();
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) record->add_schema_ids(id);
  }
}

void TableKeeper::VoidWhole(const std::string& because, absl::Time now, CaptureBatch* batch) {
  const Name name = whole_->name;
  const std::string cause = because;
  EndWhole(batch);
  not_before_[name] = now + kTableRetryPeriod;
  WaitFor(name, fmt::format("it is read from its beginning again: {}", cause));
  if (++whole_attempts_[name] < kWholeAttemptsMax) return;
  not_before_[name] = now + kTableErrorRetryPeriod;
  Fail(&StateOf(name), reason::kTableBusy,
       fmt::format("{} has no key, so that it is read whole, and {} readings of it in turn came to "
                   "nothing, the last one because of this: {}. Its changes are captured; rows "
                   "that moved without one are not told. It is tried again every {}: leave its "
                   "definition alone for as long as that takes, or give it a primary key",
                   TableNameText(name.first, name.second), kWholeAttemptsMax, cause,
                   absl::FormatDuration(kTableErrorRetryPeriod)));
}

void TableKeeper::EndWhole(CaptureBatch* batch) {
  if (whole_->in_parts) batch->events.push_back(LargeAborted{whole_->handle});
  if (unseen_.in_parts()) batch->events.push_back(LargeAborted{unseen_.subject().handle});
  whole_.reset();
  unseen_.Close();
}

}  // namespace tidemark::capture::postgres
