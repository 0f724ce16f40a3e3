#include "store/rows_folder.h"

#include <optional>
#include <string>

#include "store/log_recovery.h"
#include "store/rows_writer.h"
#include "store/stored_log_reader.h"

namespace tidemark::store {

absl::StatusOr<RowsMarker> RowsFolder::MarkerAt(const Position& folded) const {
  auto marker = ReadRowsMarker(database_, feed_);
  if (marker.ok()) marker->folded = folded;
  return marker;
}

absl::StatusOr<Position> RowsFolder::Fold(const FeedBoundaries& from) {
  RowsWriter writer(&database_, feed_);
  FoldLookups lookups = lookups_;
  lookups.stored_row = [&writer](std::string_view key) { return writer.Find(key); };
  store::Fold fold(feed_, std::move(lookups));
  StoredLogReader reader(database_, state_, feed_, from.folded);
  std::optional<Position> through;
  bool at_end = false;
  StoredRun run;
  for (;;) {
    const absl::StatusOr<bool> more = reader.Next(&run);
    if (!more.ok()) return more.status();
    at_end = !*more || run.position > from.synced;
    if (at_end) break;
    if (absl::Status status = fold.Add(run); !status.ok()) return status;
    if (run.last_of_transaction) through = run.position;
    if (fold.bytes() < kFoldBytesMax) continue;
    if (run.last_of_transaction) break;
    const auto rows = fold.Take();
    if (!rows.ok()) return rows.status();
    if (absl::Status status = writer.Stage(*rows); !status.ok()) return status;
  }
  if (through) {
    const auto marker = MarkerAt(*through);
    if (!marker.ok()) return marker.status();
    const auto rows = fold.Take();
    if (!rows.ok()) return rows.status();
    if (absl::Status status = writer.Publish(*rows, *marker); !status.ok()) return status;
  }
  // Nothing lies between the last transaction and the synced boundary.
  return at_end ? from.synced : *through;
}

absl::StatusOr<Position> RowsFolder::PassOver(const FeedBoundaries& from) {
  const auto marker = MarkerAt(from.synced);
  if (!marker.ok()) return marker.status();
  RowsWriter writer(&database_, feed_);
  if (absl::Status status = writer.Publish({}, *marker); !status.ok()) return status;
  return from.synced;
}

}  // namespace tidemark::store
