// Turns what a source read, with its gaps filled, into writes of the store. The only place, with
// the ingest loop, where capture meets the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/source.h"
#include "server/capture_state.h"
#include "server/row_filler.h"
#include "server/tail_hub.h"
#include "store/feed_store.h"

namespace tidemark {

// What one batch put into the store.
struct WrittenBatch {
  Appended appended;
  // For TailHub::Publish.
  std::vector<std::shared_ptr<const TailChunk>> chunks;
  // Tables whose current rows are gone.
  std::vector<v1::LostTable> lost;
  // What the source may be told once all of it is synced.
  Position checkpoint;
  // Everything at or before it is visible: the checkpoint, or the bound that capture ended at.
  Position proved;
  // With the bound, when capture ended there.
  std::optional<v1::StopRecord> finished;
  // A break was healed: the feed is in its next generation.
  std::optional<v1::GapRecord> gap;
  // False: nothing became visible (parts of a large transaction, rows of a snapshot), so there is
  // nothing to publish, to sync or to confirm.
  bool visible = false;
};

// Thread rule: belongs to the thread of the ingest loop. Store and hub are lent.
class EventWriter {
 public:
  // `wants_before` and `stopping` as for RowFiller.
  EventWriter(store::FeedStore& store, const TailHub& tail, WantsBefore wants_before,
              std::function<bool()> stopping)
      : store_(store),
        tail_(tail),
        stopping_(std::move(stopping)),
        filler_(store, std::move(wants_before), stopping_) {}

  // Before a source is opened: forgets what its last connection left half written, whose handles
  // the next one may use again.
  absl::Status Reset();

  // What every checkpoint says from now on of where capture is to end.
  void SetStop(const v1::StopRecord& stop) { stop_ = stop; }
  const v1::StopRecord& stop() const { return stop_; }

  // Everything that becomes visible does so in one atomic step, with the batch's checkpoint. After
  // an error nothing of it is visible; the source has to be opened again.
  absl::StatusOr<WrittenBatch> Write(capture::CaptureBatch batch);

 private:
  // One per kind of event, called in the order of the batch.
  absl::Status On(capture::SchemaSeen event);
  absl::Status On(capture::TransactionRead event);
  absl::Status On(capture::LargePart event);
  absl::Status On(capture::LargeCommitted event);
  absl::Status On(capture::LargeAborted event);
  absl::Status On(capture::LargeJoined event);
  absl::Status On(capture::SnapshotRows event);
  absl::Status On(capture::SnapshotWhole event);

  absl::StatusOr<WrittenBatch> Append(const std::optional<Position>& finished);
  void NoteIdentity(const v1::TableSchema& schema);
  void AddGap(v1::GapRecord gap);
  void Restore(const std::vector<std::pair<std::string, std::string>>& emptied);

  store::FeedStore& store_;
  const TailHub& tail_;
  const std::function<bool()> stopping_;
  RowFiller filler_;
  v1::StopRecord stop_;
  // Collects what the next Append makes visible.
  store::AppendBatch next_;
  // Large transactions with parts in the store and no end yet.
  std::set<uint64_t> open_;
  // How many of next_.schemas went to the store with snapshot rows already.
  size_t schemas_with_snapshot_ = 0;
};

}  // namespace tidemark
