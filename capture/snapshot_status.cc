#include "capture/snapshot_status.h"

#include <algorithm>

#include "proto/timestamps.h"

namespace tidemark::capture {

void BeginSnapshotStatus(absl::Time now, v1::SnapshotStatus* status) {
  status->Clear();
  *status->mutable_started() = ToTimestamp(now);
}

void FillSnapshotStatus(const std::vector<SnapshotTableRows>& tables, absl::Time began,
                        absl::Time now, v1::SnapshotStatus* status) {
  status->clear_tables();
  uint64_t done = 0;
  uint64_t estimated = 0;
  bool finished = true;
  for (const SnapshotTableRows& rows : tables) {
    v1::TableSnapshotStatus* table = status->add_tables();
    table->set_table(rows.table);
    table->set_rows_done(rows.done);
    // What was read is the better estimate once it is all there is.
    const uint64_t estimate = rows.finished ? rows.done : std::max(rows.estimated, rows.done);
    table->set_rows_estimated(estimate);
    table->set_finished(rows.finished);
    done += rows.done;
    estimated += estimate;
    finished &= rows.finished;
  }
  status->set_rows_done(done);
  status->set_rows_estimated(estimated);
  const double seconds = absl::ToDoubleSeconds(now - began);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  status->set_rows_per_second(rate);
  status->clear_remaining();
  if (rate > 0 && !finished) {
    *status->mutable_remaining() =
        ToEstimate(absl::Seconds(static_cast<double>(estimated - done) / rate));
  }
  if (finished) *status->mutable_finished() = ToTimestamp(now);
}

}  // namespace tidemark::capture
