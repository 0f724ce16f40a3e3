// PostgresSource: its tables beside the stream.
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/source.h"
#include "capture/postgres/table_sighting.h"

namespace tidemark::capture::postgres {

void PostgresSource::Remember(std::vector<v1::TableState> states) {
  std::lock_guard lock(session_mutex_);
  table_states_.clear();
  selection_.ForgetChoices();
  if (auto tables = desk_.TakeTables()) selection_.Configure(*std::move(tables));
  for (v1::TableState& state : states) {
    selection_.Choose(state.schema_name(), state.table_name(), state.choice());
    table_states_[{state.schema_name(), state.table_name()}] = std::move(state);
  }
}

absl::Status PostgresSource::OrderTable(TableOrder order) {
  absl::Status put = desk_.Put(std::move(order));
  if (put.ok()) nudge_.Raise();
  return put;
}

void PostgresSource::UseTables(std::vector<TablePattern> tables) {
  desk_.PutTables(std::move(tables));
  nudge_.Raise();
}

absl::Status PostgresSource::Verify(VerifyOrder order) {
  absl::Status put = desk_.PutVerify(std::move(order));
  if (put.ok()) nudge_.Raise();
  return put;
}

absl::Status PostgresSource::LookBeforeSnapshot(Connection* catalog, absl::Time deadline) {
  absl::StatusOr<CatalogSighting> sighting =
      LookAtTables(catalog, publication_name_, selection_.configured(), deadline);
  if (!sighting.ok()) return sighting.status();
  table_states_.clear();
  for (const SnapshotTable& read : snapshot_->tables()) {
    for (TableSighting& seen : sighting->tables) {
      if (seen.table.oid != read.table.oid) continue;
      v1::TableState& state = table_states_[{read.table.schema, read.table.table}];
      state.set_schema_name(read.table.schema);
      state.set_table_name(read.table.table);
      state.set_followed(true);
      *state.mutable_postgres() = std::move(seen.facts);
    }
  }
  return absl::OkStatus();
}

void PostgresSource::NoteSnapshotStates(CaptureBatch* batch) {
  for (const SnapshotTable& read : snapshot_->tables()) {
    const auto state = table_states_.find({read.table.schema, read.table.table});
    if (state == table_states_.end() || !read.table.partitioned) continue;
    if (HasParts(state->second.postgres(), read.parts)) continue;
    v1::TableReading* reading = state->second.mutable_reading();
    reading->set_cause("it got partitions while its rows were read");
    reading->set_started_us(absl::ToUnixMicros(absl::Now()));
  }
  for (const auto& [name, state] : table_states_) batch->table_states.push_back(state);
}

absl::StatusOr<bool> PostgresSource::StepTables(CaptureBatch* batch) {
  if (tables_keeper_ == nullptr || streaming_->finished()) return false;
  std::optional<Position> made;
  absl::Status status = tables_keeper_->Step(head_, absl::Now(), batch, &made);
  if (!status.ok()) return status;
  // Parts of what is not whole yet say nothing that the stream would have to wait for.
  if (!made && batch->table_states.empty()) return false;
  if (made) {
    head_ = *made;
    checkpoint_ = made->engine_low();
  }
  batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
  return true;
}

}  // namespace tidemark::capture::postgres
