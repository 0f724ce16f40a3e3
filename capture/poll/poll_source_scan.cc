// PollSource: what is done under the snapshot of a poll once its transaction was handed over.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "capture/poll/poll_source.h"
#include "proto/reason.h"

namespace tidemark::capture {

bool PollSource::IsScanning() const {
  return verifier_->active() ||
         std::any_of(done_.tables().begin(), done_.tables().end(),
                     [](const v1::PolledTableState& state) { return state.scan().running(); });
}

void PollSource::BeginDueScans() {
  for (size_t table = 0; table < settings_->tables.size(); ++table) {
    v1::KeyScanState* scan = StateOf(&done_, table)->mutable_scan();
    if (shapes_[table] && poll::ScanIsDue(*settings_, *scan, done_.clock_us())) {
      poll::BeginScan(/*ordered=*/false, done_.clock_us(), scan);
    }
  }
}

std::optional<size_t> PollSource::TableToScan() {
  for (size_t table = 0; table < settings_->tables.size(); ++table) {
    if (shapes_[table] && StateOf(&done_, table)->scan().running()) return table;
  }
  return std::nullopt;
}

absl::StatusOr<bool> PollSource::EndScans(CaptureBatch* batch) {
  if (absl::Status ended = engine_->EndPoll(); !ended.ok()) return ended;
  run_.reset();
  Enter(Phase::kWaiting, v1::SOURCE_STATE_STREAMING, "polling");
  return batch->checkpoint.has_value();
}

absl::StatusOr<bool> PollSource::StepScan(CaptureBatch* batch) {
  const absl::Time now = absl::Now();
  if (now >= run_->scan_until) return EndScans(batch);
  if (const std::optional<size_t> table = TableToScan()) {
    // Not row by row.
    const uint32_t least =
        std::clamp(settings_->scan_rows_per_second / 10, 1u, settings_->page_rows);
    if (budget_.Available(now) >= least) return ScanChunk(*table, batch);
    const absl::Time next = std::min(budget_.Next(now, least), run_->scan_until);
    if (!verifier_->active()) return Wait(next);
  }
  const std::optional<size_t> table = verifier_->Next(done_.polls());
  // One that is locked is compared in a later poll.
  const bool busy =
      table && done_.tables(static_cast<int>(*table)).error_reason() == reason::kTableBusy;
  if (!table || busy) return EndScans(batch);
  if (absl::Status verified = VerifyChunk(*table); !verified.ok()) return verified;
  return false;
}

// One transaction of the differences of one chunk, made here.
absl::StatusOr<bool> PollSource::ScanChunk(size_t table, CaptureBatch* batch) {
  const absl::Time now = absl::Now();
  if (std::exchange(scanned_table_, table) != table) scan_->Forget();
  v1::PolledTableState state = done_.tables(static_cast<int>(table));
  const v1::TableSchema& schema = shapes_[table]->schema;
  if (absl::Status returned = engine_->ReturnToTable(table); !returned.ok()) return returned;
  builder_.Begin();
  poll::ChangeSink sink(&builder_, WantsBefore(table));
  const uint32_t rows_max = std::min(settings_->page_rows, budget_.Available(now));
  absl::StatusOr<size_t> rows = scan_->Step(table, settings_->tables[table], schema, rows_max,
                                            done_.clock_us(), &state, &sink);
  if (!rows.ok()) {
    scan_->Forget();
    if (absl::Status left = LeaveOut(table, rows.status(), &done_); !left.ok()) return left;
    return false;
  }
  budget_.Take(std::max<size_t>(*rows, 1));
  const bool ended = !state.scan().running();
  *StateOf(&done_, table) = std::move(state);
  if (ended) {
    const v1::KeyScanState& scan = done_.tables(static_cast<int>(table)).scan();
    if (scan.missing() + scan.extra() + scan.different() > 0) {
      notice_ += fmt::format(
          "{}all {} rows of {} were compared: {} were missing, {} gone and {} different, and were "
          "told as changes",
          notice_.empty() ? "" : "; ", scan.rows_read(), settings_->tables[table].Text(),
          scan.missing(), scan.extra(), scan.different());
    }
  }
  const bool told = builder_.changes() > 0;
  if (told) {
    head_ = head_.WithOrdinal(head_.ordinal() + 1);
    v1::CommitRecord record;
    record.set_origin(v1::ORIGIN_RESYNC);
    record.set_commit_time_us(done_.clock_us());
    batch->events.push_back(TransactionRead{builder_.Finish(head_, std::move(record))});
    batch->made = true;
  }
  if (!told && !ended && now - checkpointed_ < poll::kProgressPeriod) return false;
  tables_to_show_ = true;
  batch->checkpoint = CheckpointAt(head_, v1::SNAPSHOT_PHASE_WHOLE);
  batch->notice = std::exchange(notice_, "");
  checkpointed_ = now;
  return true;
}

absl::Status PollSource::VerifyChunk(size_t table) {
  if (!shapes_[table]) {
    const v1::PolledTableState& state = done_.tables(static_cast<int>(table));
    verifier_->Refuse(ErrorWithReason(absl::StatusCode::kFailedPrecondition, state.error_reason(),
                                      state.error_message()));
    return absl::OkStatus();
  }
  if (absl::Status returned = engine_->ReturnToTable(table); !returned.ok()) return returned;
  absl::StatusOr<size_t> rows = verifier_->Step(shapes_[table]->schema, done_.polls(), head_);
  if (rows.ok()) return absl::OkStatus();
  if (!engine_->OfTable(rows.status())) return rows.status();
  verifier_->Refuse(rows.status());
  return absl::OkStatus();
}

}  // namespace tidemark::capture
