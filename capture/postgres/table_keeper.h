// Keeps the tables of a running feed whole where the stream alone does not: reads a table that was
// added, reads again one whose rows moved without a message, gives tables to the publication, and
// puts a table of which that cannot be known into a named error state, while the others flow. Also
// reads what a verification compares.
//
// A table is read in chunks beside the stream (ReadChunk, ChunkWindow). What a chunk tells goes
// into a transaction that Tidemark makes, behind the place in the stream at which everything that
// the chunk's snapshot saw was handed over. How far a table has come is in its TableState, which
// becomes durable together with that transaction. One without a key is read whole, and told in one
// transaction (WholeReading, UnseenChanges): a reading that does not come to its end begins again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "capture/known_keys.h"
#include "capture/known_rows.h"
#include "capture/postgres/chunk_comparison.h"
#include "capture/postgres/chunk_size.h"
#include "capture/postgres/chunk_window.h"
#include "capture/postgres/moved_rows.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/side_session.h"
#include "capture/postgres/streaming.h"
#include "capture/postgres/table_chunk.h"
#include "capture/postgres/table_desk.h"
#include "capture/postgres/table_lock.h"
#include "capture/postgres/table_selection.h"
#include "capture/postgres/table_sighting.h"
#include "capture/postgres/table_verifier.h"
#include "capture/postgres/unseen_changes.h"
#include "capture/postgres/whole_reading.h"
#include "capture/source.h"
#include "capture/transaction_builder.h"
#include "tidemark/v1/admin.pb.h"
#include "tidemark/v1/stored.pb.h"

namespace tidemark::capture::postgres {

// How long a movement without a message stays unknown at most, beyond the time of one look.
inline constexpr absl::Duration kCatalogPeriodDefault = absl::Seconds(5);
// Between two looks, however often the stream announces tables.
inline constexpr absl::Duration kLookGapMin = absl::Milliseconds(200);
// A table with an error that needs a person is tried again, in case somebody saw to it.
inline constexpr absl::Duration kTableErrorRetryPeriod = absl::Seconds(30);
// A table that could not be published because of a lock; each try keeps the others waiting.
inline constexpr absl::Duration kPublishRetryPeriod = absl::Seconds(5);
inline constexpr absl::Duration kChunkTimeout = absl::Seconds(60);
// How often the reading of a table without a key may come to nothing before that is its error.
inline constexpr int kWholeAttemptsMax = 20;
// Between two reports of how far such a reading is.
inline constexpr absl::Duration kWholeReportPeriod = absl::Milliseconds(50);

// One per connection. Thread rule: one thread at a time. What is lent outlives it.
class TableKeeper {
 public:
  using Name = std::pair<std::string, std::string>;
  using States = std::map<Name, v1::TableState>;

  struct Lent {
    std::string publication;
    Streaming* streaming = nullptr;
    TableSelection* selection = nullptr;
    TableDesk* desk = nullptr;
    KnownRows* known = nullptr;
    // Outlives the connection.
    States* states = nullptr;
    absl::Duration look_period = kCatalogPeriodDefault;
  };

  // `wake` ends a wait of the stream, from any thread.
  TableKeeper(const Lent& lent, Target target, std::function<void()> wake);
  ~TableKeeper();

  // Between two batches, with nothing in `batch`: what was handed over is in the store. `head` is
  // the position of the newest checkpoint. Fills in events, states and the new position of a made
  // transaction; the batch is to be returned at once when any of them is there.
  absl::Status Step(const Position& head, absl::Time now, CaptureBatch* batch,
                    std::optional<Position>* made);
  // What is to be remembered together with what was streamed into `batch`, whose checkpoint is
  // behind that: partitions whose rows it brings, rows that moved.
  void AddStates(CaptureBatch* batch);
  // Nothing can be told of a chunk before the stream is proved up to here.
  std::optional<Lsn> fence() const;
  // Whether Step has something to do now that the stream is proved up to `proved`.
  bool Ready(Lsn proved, absl::Time now) const;
  absl::Time next_due() const;

 private:
  void LookSoon(absl::Time now);
  void TakeOrders(absl::Time now);
  void Order(const TableOrder& order);
  // What the configuration names now. Between two transactions, so that each is captured by one
  // list.
  void TakeTables(absl::Time now);
  // Tables that neither the configuration nor an order names any more.
  void LeaveUnwanted();
  void Leave(v1::TableState* state);
  void LookAgain(absl::Time now);
  void Collect(absl::Time now);
  void CollectLook(absl::Time now);
  void ApplySighting(const CatalogSighting& sighting, absl::Time now);
  void FailMissing(std::span<const UnloggedRelation> unlogged);
  void ApplyTable(const TableSighting& seen, const CatalogSighting& sighting, bool baseline);
  // `cause`: why it is to be read once it is published.
  void NotPublished(const TableSighting& seen, const CatalogSighting& sighting,
                    const std::string& cause, v1::TableState* state);
  void BeginReading(v1::TableState* state, const Movement& movement, bool fresh, uint64_t xmax);
  void Fail(v1::TableState* state, std::string_view reason, const std::string& message);
  void ChunkFailed(const absl::Status& status, absl::Time now);
  void ReadingFailed(const Name& name, const absl::Status& status, absl::Time now);
  void Start(bool quiet, absl::Time now);
  // Everything that the chunk's snapshot saw was handed over, and the stream stands between two
  // transactions.
  bool MayTell() const;
  bool MayRead(const Name& name, const v1::TableState& state, absl::Time now) const;
  void StartChunk(absl::Time now);
  void StartVerifyingChunk(absl::Time now);
  void ReadBeside(ChunkOrder order, bool verifies);
  void Unwatch();
  // Removed tables that are still to be emptied.
  std::vector<TablePattern> EmptyingPatterns() const;
  absl::Status RefillKnownKeys(const v1::TableState& state);
  void AskAgain();
  void WatchMoves();
  v1::TableSchema SchemaOfReading(const v1::TableState& state) const;

  absl::Status Emit(const Position& head, absl::Time now, CaptureBatch* batch,
                    std::optional<Position>* made);
  // What of a chunk is told later than the rows that are told now.
  struct RowsBehind {
    std::vector<std::string> lines;
    bool at_end = false;
  };
  std::optional<RowsBehind> TakeRowsBehind(const v1::TableReading& reading);
  absl::Status Verify(const Position& head, absl::Time now);
  bool ChunkHolds(absl::Time now);
  bool PartsAsSeen(const Name& name, std::span<const uint32_t> part_oids) const;
  bool ReadingHolds(absl::Time now);
  void WaitFor(const Name& name, const std::string& what);
  Position PlaceOfMade(const Position& head) const;
  absl::Status AddReadRows(v1::TableState* state);
  void NoteMovedRead();
  void AddRow(bool fresh, const ComparedRow& row);
  absl::Status AddRemovals(v1::TableState* state);
  void Finish(v1::TableState* state, absl::Time now);

  bool ReadsWhole(const Name& name, const v1::TableState& state) const;
  void StartWhole(absl::Time now);
  bool WholeReady(Lsn proved) const;
  // As Step.
  void StepWhole(const Position& head, absl::Time now, CaptureBatch* batch,
                 std::optional<Position>* made);
  void BeginWhole(TableChunk begun, CaptureBatch* batch);
  void TakeRows(absl::Time now, CaptureBatch* batch);
  void WholeRead(absl::StatusOr<WholeRows> end, absl::Time now, CaptureBatch* batch);
  void EmitWhole(const Position& at, absl::Time now, CaptureBatch* batch);
  void AddUnseen(v1::CommitRecord* record, CaptureBatch* batch);
  void VoidWhole(const std::string& because, absl::Time now, CaptureBatch* batch);
  void EndWhole(CaptureBatch* batch);

  void Touch(const Name& name) { dirty_.insert(name); }
  v1::TableState& StateOf(const Name& name);
  void Report();

  // The reading of a table without a key.
  struct Whole {
    Whole(Name of, uint64_t made_handle, std::unique_ptr<WholeReading> whole_reading)
        : name(std::move(of)), handle(made_handle), reading(std::move(whole_reading)) {}

    Name name;
    // Of the transaction that is made.
    uint64_t handle;
    std::unique_ptr<WholeReading> reading;
    bool in_parts = false;
    // Since the snapshot was taken.
    std::optional<TableChunk> begun;
    // Since all rows were taken: what they are.
    std::optional<WholeRows> rows;
    // Why it is to begin again.
    std::string overtaken_by;
  };

  const Lent lent_;
  const Target target_;
  const std::function<void()> wake_;
  ChunkWindow window_;
  MovedRows moved_;
  UnseenChanges unseen_;
  std::unique_ptr<SideSession> session_;

  // Tables as last looked at.
  std::map<Name, SourceTable> tables_;
  uint64_t looks_ = 0;
  // The newest look that a reading began from; readings of earlier connections began before the
  // first one. The newest look before the chunk that is under way. The newest look of which
  // everything that it saw was streamed.
  uint64_t look_of_readings_ = 1;
  uint64_t look_of_chunk_ = 0;
  uint64_t look_passed_ = 0;
  std::set<Name> dirty_;
  // The statuses say something else since the last report.
  bool report_due_ = true;
  absl::Time look_due_ = absl::InfinitePast();
  absl::Time look_began_ = absl::InfinitePast();
  // When the look began that the states come of, and how far the stream must have come for them to
  // say all that had moved by then.
  absl::Time seen_ = absl::InfinitePast();
  struct AppliedLook {
    absl::Time began;
    Lsn at = 0;
  };
  std::optional<AppliedLook> applied_look_;
  // The stream said something since then that the next look has to judge.
  bool awaits_look_ = false;
  std::vector<SourceTable> to_publish_;

  // At most one of them is under way.
  std::future<absl::StatusOr<CatalogSighting>> look_;
  bool look_overtaken_ = false;                       // the stream said something since it began
  bool look_outdated_ = false;                        // other tables were wanted when it began
  std::future<absl::StatusOr<std::string>> publish_;  // what it waits for; empty: it is done
  std::future<absl::StatusOr<TableChunk>> chunk_;
  Name chunk_of_;
  bool chunk_verifies_ = false;
  std::optional<TableChunk> read_;  // waits for its fence, or is told in part
  bool fence_ahead_ = false;
  absl::Time read_at_ = absl::InfinitePast();
  // Of the rows that are on their way into the store.
  std::optional<absl::Time> told_at_;

  // Beside them.
  std::optional<Whole> whole_;
  absl::Time whole_report_due_ = absl::InfinitePast();
  // Since such a reading came to its end, or was asked for.
  std::map<Name, int> whole_attempts_;
  // Tables that have a key by the catalog, and none by what is published of them.
  std::set<Name> keyless_;

  std::map<Name, absl::Time> not_before_;
  ChunkSize chunk_size_;
  uint64_t commits_seen_ = 0;
  // Of the table whose removed rows are looked for.
  std::deque<KnownKey> known_keys_;
  Name known_keys_of_;
  absl::Status failure_;  // of the store, met while a chunk was prepared
  std::vector<KnownKey> asked_;
  // In the chunk under way.
  std::vector<MovedRows::Key> asked_moved_;
  std::map<Name, v1::TableSchema> schemas_;

  ChunkComparison comparison_;
  TableVerifier verifier_;
  RowEncoder encoder_;
  TransactionBuilder builder_;
};

}  // namespace tidemark::capture::postgres
