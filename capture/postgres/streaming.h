// Turns the frames of a replication stream into events, and knows how far they prove the log to be
// complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/known_rows.h"
#include "capture/postgres/chunk_window.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/held_announcements.h"
#include "capture/postgres/in_progress_spool.h"
#include "capture/postgres/lsn.h"
#include "capture/postgres/moved_rows.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/relation_cache.h"
#include "capture/postgres/replication_message.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/row_touches.h"
#include "capture/postgres/stop_bound.h"
#include "capture/postgres/streamed_shapes.h"
#include "capture/postgres/table_selection.h"
#include "capture/postgres/unseen_changes.h"
#include "capture/source.h"
#include "capture/transaction_builder.h"

namespace tidemark::capture::postgres {

// A session with the catalog, for what the stream does not say of a table.
using CatalogProvider = std::function<absl::StatusOr<Connection*>()>;

// One per START_REPLICATION. Thread rule: one thread at a time. `selection` and `in_progress` must
// outlive it.
class Streaming {
 public:
  // Everything at or before `start` was handed over before. `in_progress`, which holds nothing, is
  // for transactions that are sent while they are in progress; null: none is to be.
  Streaming(uint32_t generation, Lsn start, const TableSelection* selection, GapPolicyOf gaps,
            CatalogProvider catalog, InProgressSpool* in_progress);

  // A table that is read beside the stream; none with OID 0.
  struct Watched {
    uint32_t oid = 0;
    std::string schema;
    std::string table;
    // Its rows are known rightly, also where a change leaves values out.
    bool rows_known = false;
  };
  // What is streamed beside the reading of a table is told to `window`, and row by row for the
  // table that Watch names; rows that move in a table that `moved` watches, to that; to `unseen`
  // change by change. Null: to nobody.
  void Observe(ChunkWindow* window, MovedRows* moved, UnseenChanges* unseen,
               const KnownRows* known);
  void Watch(Watched watched);
  // The stream said nothing of the watched table that would not fit `relation`.
  bool AgreesWith(const Relation& relation) const;
  // What was announced since a table was looked at.
  StreamedShapes& shapes() { return shapes_; }
  // The tables of the feed changed. Between two transactions.
  void SelectionChanged() { selection_changed_ = true; }

  // Takes one frame; appends what became whole, or too large to be held. Once the stop is reached,
  // frames say nothing. REQUIRES: !replaying().
  absl::Status OnFrame(std::string_view frame, std::vector<SourceEvent>* events);
  // A transaction that was sent while it was in progress has committed. It is handed over by
  // Replay, as if it came now.
  bool replaying() const { return replay_.has_value(); }
  // The next messages of it, of `bytes_max` bytes together and the one that passes them, or all
  // that are left; returns their bytes. REQUIRES: replaying().
  absl::StatusOr<size_t> Replay(size_t bytes_max, std::vector<SourceEvent>* events);

  // Ends behind every transaction that ends at or before `bound` and before the first one that was
  // committed later than `time_us`; a transaction in flight that does not belong there is
  // withdrawn. REQUIRES: nothing behind the bound was handed over.
  void StopAt(std::optional<Lsn> bound, std::optional<int64_t> time_us,
              std::vector<SourceEvent>* events);
  // The bound, once it is proved that everything up to it was handed over: proved() is then where a
  // later read goes on.
  std::optional<Lsn> finished() const { return finished_; }

  // Every committed and published transaction that ends at or before this was handed over: the end
  // of the last one, or what a keepalive said while nothing was in flight (K1, K8). Only rises.
  Lsn proved() const { return proved_; }
  // The walsender's own place, as last heard; may lie within a transaction in flight.
  Lsn heard() const { return heard_; }
  bool in_transaction() const { return in_transaction_; }
  // Nothing is half sent: what the server says of its place proves something.
  bool between_transactions() const { return !in_transaction_ && !segment_of_; }
  // True once after the server asked for a reply.
  bool TakeReplyRequest();
  // For a large transaction that is made beside the stream.
  uint64_t NewHandle() { return next_handle_++; }
  int64_t newest_commit_us() const { return newest_commit_us_; }

 private:
  absl::Status OnMessage(const PgoutputMessage& message, std::vector<SourceEvent>* events);
  void OnKeepalive(const Keepalive& keepalive, std::vector<SourceEvent>* events);
  absl::Status OnBegin(const BeginMessage& begin, std::vector<SourceEvent>* events);
  absl::Status OnCommit(const CommitMessage& commit, std::vector<SourceEvent>* events);
  absl::Status OnRelation(const RelationMessage& message, std::vector<SourceEvent>* events);
  // A table is from now on as it was announced.
  absl::Status Apply(Announcement announcement, std::vector<SourceEvent>* events);

  // Of transactions in progress.
  absl::Status OnStreamStart(const StreamStartMessage& start);
  absl::Status OnItem(const PgoutputMessage& message, std::string_view payload);
  absl::Status OnStreamAbort(const StreamAbortMessage& abort);
  absl::Status OnStreamCommit(const StreamCommitMessage& commit, std::vector<SourceEvent>* events);
  absl::Status ReplayMessage(const InProgressSpool::Message& message,
                             std::vector<SourceEvent>* events);
  // A message of a subtransaction that was rolled back.
  void PassOver(const PgoutputMessage& message);
  absl::Status EndReplay(std::vector<SourceEvent>* events);

  using AddChange = std::function<absl::Status(const RowShape&, TransactionBuilder*)>;
  // Adds one change of one row: `add` encodes it for a captured table, `skipped` is what it counts
  // in another one.
  absl::Status OnRow(uint32_t oid, const RowTuples& tuples,
                     const std::function<uint64_t(const RowShape&)>& skipped, const AddChange& add,
                     std::vector<SourceEvent>* events);
  // After `add` failed under what is known of the table's types.
  absl::Status AddUnderOtherTypes(const Relation& relation, const AddChange& add,
                                  std::vector<SourceEvent>* events);
  // What cannot be read under what the catalog says of composite types.
  absl::Status AddAsCompositeText(const RowShape& shape, const AddChange& add,
                                  TransactionBuilder* builder);
  // Once more, where the change was added already.
  void AddUnseen(const Relation& relation, const AddChange& add);
  // Hands over the schema of a captured table, which had another one before.
  void Announce(const Relation& relation, uint64_t schema_before, std::vector<SourceEvent>* events);
  absl::Status OnTruncate(const TruncateMessage& truncate, std::vector<SourceEvent>* events);
  // A change of a row of this table came, the first since a table was announced.
  void NoteAnnounced(const RelationDescription& root);
  void SelectAgain(std::vector<SourceEvent>* events);
  // What a change names.
  absl::StatusOr<const Relation*> Known(uint32_t oid, std::vector<SourceEvent>* events);
  void HandOverFullRuns(std::vector<SourceEvent>* events);
  // Whether the transaction that has begun may still belong to what is read.
  void CheckBegun(std::vector<SourceEvent>* events);
  void Finish(Lsn bound, Lsn resume, std::vector<SourceEvent>* events);

  uint32_t generation_;
  CatalogProvider catalog_;
  PgoutputDecoder decoder_;
  RelationCache relations_;
  StreamedShapes shapes_;
  RowEncoder encoder_;
  TransactionBuilder builder_;
  ChunkWindow* window_ = nullptr;
  MovedRows* moved_ = nullptr;
  UnseenChanges* unseen_ = nullptr;
  const KnownRows* known_ = nullptr;
  Watched watched_;
  bool watched_announced_ = false;  // since Watch
  bool selection_changed_ = false;

  // Messages that came, and the place among them of the one that is read: in a replay, an old one.
  uint64_t received_ = 0;
  uint64_t sent_ = 0;
  HeldAnnouncements announcements_;
  InProgressSpool* in_progress_;
  // Between Stream Start and Stop: the transaction.
  std::optional<uint32_t> segment_of_;
  struct Replayed {
    StreamCommitMessage commit;
    PgoutputDecoder decoder = PgoutputDecoder::WithinSegment();
  };
  std::optional<Replayed> replay_;

  // The newest announcements, until a change comes. A partition that is sent under the name of its
  // root is announced right behind the root, once for each time that it was attached at least.
  uint32_t announced_ = 0;
  uint32_t announced_before_ = 0;
  // Of the transaction in flight: the roots of which it has rows, each with a partition of them.
  std::vector<std::pair<StreamedShapes::Name, uint32_t>> parts_;
  uint32_t last_oid_ = 0;  // rows of one table come together
  const Relation* last_relation_ = nullptr;

  Lsn proved_;
  Lsn heard_;
  bool reply_requested_ = false;
  bool in_transaction_ = false;
  uint32_t xid_ = 0;
  Lsn commit_lsn_ = 0;  // of the transaction in flight
  int64_t begun_time_us_ = 0;
  uint64_t handle_ = 0;  // of the transaction in flight, once a part of it was handed over
  uint64_t next_handle_ = 1;
  int64_t newest_commit_us_ = 0;

  std::optional<StopBound> stop_;
  std::optional<int64_t> stop_time_us_;
  std::optional<Lsn> finished_;
};

}  // namespace tidemark::capture::postgres
