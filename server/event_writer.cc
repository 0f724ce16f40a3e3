#include "server/event_writer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "server/gap_rules.h"
#include "server/identity_change.h"
#include "server/limits.h"

namespace tidemark {
namespace {

void CountTransaction(const Position& position, const v1::CommitRecord& record,
                      Appended* appended) {
  ++appended->transactions;
  appended->changes += record.changes();
  if (appended->newest && position < *appended->newest) return;
  appended->newest = position;
  appended->newest_commit_time_us = record.commit_time_us();
}

Appended Summary(const store::AppendBatch& batch) {
  Appended appended;
  for (const auto& transaction : batch.transactions) {
    CountTransaction(transaction.position, transaction.record, &appended);
  }
  for (const auto& spooled : batch.spooled) {
    CountTransaction(spooled.position, spooled.record, &appended);
  }
  return appended;
}

bool BeginsSnapshot(const capture::CaptureBatch& batch) {
  return batch.checkpoint && batch.checkpoint->snapshot_phase() == v1::SNAPSHOT_PHASE_PREPARING;
}

}  // namespace

absl::Status EventWriter::Reset() {
  if (auto status = filler_.Reset(); !status.ok()) return status;
  next_ = {};
  schemas_with_snapshot_ = 0;
  while (!open_.empty()) {
    if (auto status = store_.AbortSpool(*open_.begin()); !status.ok()) return status;
    open_.erase(open_.begin());
  }
  return absl::OkStatus();
}

absl::StatusOr<WrittenBatch> EventWriter::Write(capture::CaptureBatch batch) {
  if (BeginsSnapshot(batch)) {
    if (auto status = store_.BeginSnapshot(); !status.ok()) return status;
    schemas_with_snapshot_ = 0;
  }
  for (auto& event : batch.events) {
    auto status = std::visit([this](auto& kind) { return On(std::move(kind)); }, event);
    if (!status.ok()) return status;
  }
  if (!batch.checkpoint) return WrittenBatch{};
  if (batch.gap) AddGap(*std::move(batch.gap));
  next_.checkpoint = std::move(batch.checkpoint);
  for (v1::LostTable& lost : next_.lost) lost.set_position(next_.checkpoint->position());
  next_.table_states = std::move(batch.table_states);
  Restore(batch.emptied);
  return Append(batch.finished);
}

absl::StatusOr<WrittenBatch> EventWriter::Append(const std::optional<Position>& finished) {
  WrittenBatch written;
  v1::StopRecord stop = stop_;
  if (finished) {
    stop.set_bound(std::string(finished->WithOrdinal(0).bytes()));
    stop.set_finished(true);
    written.finished = stop;
  }
  if (next_.gap) stop = StopBehindGap(stop, Position::FromBytes(next_.gap->to())->generation());
  // In the same step as the last transactions: that capture is finished is never known without
  // them, nor forgotten with them in the store.
  if (!stop.requested().empty() || !stop.configured().empty()) {
    *next_.checkpoint->mutable_stop() = stop;
  }
  written.appended = Summary(next_);
  written.chunks = tail_.Prepare(next_);
  written.lost = next_.lost;
  written.gap = next_.gap;
  written.visible = true;
  // Empty while a snapshot is being prepared: nothing was captured yet.
  written.checkpoint = Position::FromBytes(next_.checkpoint->position()).value_or(Position());
  written.proved = finished ? std::max(written.checkpoint, *finished) : written.checkpoint;
  std::vector<uint64_t> committed;
  for (const auto& spooled : next_.spooled) committed.push_back(spooled.handle);
  schemas_with_snapshot_ = 0;
  if (auto status = store_.Append(std::exchange(next_, {})); !status.ok()) return status;
  // Only now: had it failed, their parts would be left over.
  for (const uint64_t handle : committed) open_.erase(handle);
  filler_.Appended();
  stop_ = stop;
  return written;
}

absl::Status EventWriter::On(capture::SchemaSeen event) {
  // Kept until an Append has it, whichever writes come before: a spool may be aborted, and its
  // schemas with it.
  NoteIdentity(event.schema);
  next_.schemas.push_back(std::move(event.schema));
  return absl::OkStatus();
}

// Rows that are kept by what was the identity before cannot be found by what it is now.
void EventWriter::NoteIdentity(const v1::TableSchema& schema) {
  if (!store_.snapshot_whole()) return;
  const auto same_table = [&](const v1::TableSchema& other) {
    return other.schema_name() == schema.schema_name() && other.table_name() == schema.table_name();
  };
  std::optional<v1::TableSchema> before;
  const auto newest = std::find_if(next_.schemas.rbegin(), next_.schemas.rend(), same_table);
  if (newest != next_.schemas.rend()) {
    before = *newest;
  } else {
    before = store_.CurrentSchema(schema.schema_name(), schema.table_name());
  }
  if (!before) return;
  const bool had_rows = store_.KeepsRows(*before);
  if (!had_rows && !store_.KeepsRows(schema)) return;
  const auto change = IdentityChange(*before, schema);
  const bool is_noted = std::any_of(next_.lost.begin(), next_.lost.end(), [&](const auto& lost) {
    return lost.schema_name() == schema.schema_name() && lost.table_name() == schema.table_name();
  });
  if (!change || is_noted) return;
  next_.lost.push_back(IdentityLost(schema, *change, had_rows));
  filler_.LostTable();
}

void EventWriter::AddGap(v1::GapRecord gap) {
  gap.set_from(std::string(store_.head().bytes()));
  if (gap.policy() == v1::RECOVERY_POLICY_GAP_AND_CONTINUE) {
    next_.lost = RowsBehindGap(store_, gap);
    filler_.LostTable();
  }
  next_.gap = std::move(gap);
}

// A table whose rows were lost is known again from where it is emptied on.
void EventWriter::Restore(const std::vector<std::pair<std::string, std::string>>& emptied) {
  if (emptied.empty()) return;
  std::vector<v1::LostTable> lost = store_.LostTables();
  lost.insert(lost.end(), next_.lost.begin(), next_.lost.end());
  for (const auto& [schema, table] : emptied) {
    if (std::any_of(lost.begin(), lost.end(), [&](const v1::LostTable& one) {
          return one.schema_name() == schema && one.table_name() == table;
        })) {
      next_.restored.emplace_back(schema, table);
    }
  }
}

absl::Status EventWriter::On(capture::TransactionRead event) {
  return filler_.Add(std::move(event.transaction), &next_);
}

absl::Status EventWriter::On(capture::LargePart event) {
  open_.insert(event.handle);
  filler_.SawParts(event.handle, event.runs);
  return store_.SpoolParts(event.handle, next_.schemas, event.runs);
}

absl::Status EventWriter::On(capture::LargeCommitted event) {
  const uint64_t handle = event.handle;
  absl::Status status =
      filler_.AddSpooled({handle, event.position, std::move(event.record)}, &next_);
  // Filled, it is under another handle.
  if (status.ok() && next_.spooled.back().handle != handle) open_.erase(handle);
  return status;
}

absl::Status EventWriter::On(capture::LargeAborted event) {
  filler_.Aborted(event.handle);
  if (auto status = store_.AbortSpool(event.handle); !status.ok()) return status;
  open_.erase(event.handle);
  return absl::OkStatus();
}

// Where the tail stands was not known when its parts came.
absl::Status EventWriter::On(capture::LargeJoined event) {
  std::vector<EncodedRun> runs;
  size_t bytes = 0;
  const auto write = [&] {
    bytes = 0;
    return store_.SpoolParts(event.handle, next_.schemas, std::exchange(runs, {}));
  };
  {
    auto reader = store_.NewSpoolReader(event.tail);
    if (!reader.ok()) return reader.status();
    store::SpooledRun run;
    absl::StatusOr<bool> more = false;
    while ((more = (*reader)->Next(&run)).ok() && *more) {
      if (stopping_()) return absl::CancelledError("stopped while a large transaction was joined");
      runs.push_back(
          {event.first_sequence + run.first_sequence, run.part, 0, std::string(run.bytes)});
      bytes += run.bytes.size();
      if (bytes < limits::joined_bytes_max) continue;
      if (auto status = write(); !status.ok()) return status;
    }
    if (!more.ok()) return more.status();
  }
  if (auto status = write(); !status.ok()) return status;
  return On(capture::LargeAborted{event.tail});
}

absl::Status EventWriter::On(capture::SnapshotRows event) {
  // Tables may be many and batches many more: each schema is given once.
  const std::vector<v1::TableSchema> fresh(next_.schemas.begin() + schemas_with_snapshot_,
                                           next_.schemas.end());
  if (auto status = store_.AddSnapshotRows(fresh, event.runs); !status.ok()) return status;
  schemas_with_snapshot_ = next_.schemas.size();
  return absl::OkStatus();
}

absl::Status EventWriter::On(capture::SnapshotWhole event) {
  next_.snapshot_whole = event.position;
  return absl::OkStatus();
}

}  // namespace tidemark
