// Captures one PostgreSQL database through logical replication (pgoutput).
//
//   Open ─ no whole snapshot ─▶ kPreparing ─ batch, Confirm ─▶ kCreatingSlot ─▶ kSnapshot ─┐
//     ├── whole snapshot ───────────────────────────────────────────────▶ kStreaming ◀──────┤
//     └── a break to be healed ─▶ kPreparing ─ batch, Confirm ─▶ kCreatingSlot ─▶ kHealed ──┘
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capture/postgres/connection.h"
#include "capture/postgres/in_progress_spool.h"
#include "capture/postgres/proof_probe.h"
#include "capture/postgres/server_facts.h"
#include "capture/postgres/silence.h"
#include "capture/postgres/slot.h"
#include "capture/postgres/slot_creation.h"
#include "capture/postgres/snapshot_reader.h"
#include "capture/postgres/source_status.h"
#include "capture/postgres/standby_keeper.h"
#include "capture/postgres/standby_replies.h"
#include "capture/postgres/streaming.h"
#include "capture/postgres/table_desk.h"
#include "capture/postgres/table_keeper.h"
#include "capture/postgres/table_selection.h"
#include "capture/source.h"
#include "proto/table_name.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::postgres {

// What one Read hands over at most, plus the one frame or row that passes the bound.
inline constexpr size_t kBatchBytesMax = 1 << 20;
// After so much of the stream, the end of a transaction is where waiting tables are seen to.
inline constexpr size_t kQuietLookBytes = 64 << 10;
static_assert(kQuietLookBytes < kBatchBytesMax);
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(15);
inline constexpr absl::Duration kSilenceTimeoutDefault = absl::Seconds(30);
// Idle progress is written to the store and synced: not for every keepalive.
inline constexpr absl::Duration kProgressPeriod = absl::Seconds(1);
inline constexpr absl::Duration kSlotFactsPeriod = absl::Seconds(5);
// A server that does not answer the question about its slot must not hold capture up.
inline constexpr absl::Duration kSlotFactsTimeout = absl::Seconds(1);
inline constexpr absl::Duration kWaitingPeriod = absl::Seconds(1);
// A standby's slot waits for the primary, and what holds its rows meanwhile may hold up its replay.
inline constexpr absl::Duration kStandbySlotTimeout = absl::Minutes(5);
// A table that is rewritten again and again while the snapshot begins.
inline constexpr int kSnapshotAttemptsMax = 5;

class PostgresSource final : public Source {
 public:
  // Transactions in progress are held in files without a name in `scratch_folder`.
  PostgresSource(const v1::FeedConfig& config, std::vector<TablePattern> tables,
                 std::vector<TablePattern> rows_off, std::vector<TablePattern> before_images,
                 std::string scratch_folder);
  ~PostgresSource() override;

  absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) override;
  absl::StatusOr<CaptureBatch> Read(absl::Time deadline) override;
  absl::Status Confirm(const Position& durable) override;
  void Close() override;
  absl::StatusOr<DropOutcome> DropOwned(const v1::Checkpoint& checkpoint,
                                        const std::function<absl::Status()>& decided) override;
  absl::Status StopAt(const StopPoint& point) override;
  std::optional<LogEnd> SampleEnd() override;
  void Prove(const std::optional<Position>& upto) override;
  absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const override;
  void Nudge() override { nudge_.Raise(); }
  void UseKnownRows(KnownRows* known) override { known_rows_ = known; }
  void Remember(std::vector<v1::TableState> states) override;
  absl::Status OrderTable(TableOrder order) override;
  void UseTables(std::vector<TablePattern> tables) override;
  absl::Status Verify(VerifyOrder order) override;
  void Interrupt() override { interruption_.Raise(); }
  void FillStatus(v1::FeedStatus* status) const override;
  SourceDescription Describe() const override;
  std::string NativeText(const Position& position) const override;
  absl::StatusOr<Position> ParseNative(std::string_view text, uint32_t generation) const override;

 private:
  enum class Phase {
    kClosed,
    kPreparing,
    kAwaitingConfirm,
    kConfirmed,
    kCreatingSlot,
    kSnapshot,
    kHealed,
    kStartStreaming,
    kStreaming
  };

  void Enter(Phase phase, std::string cause);
  void CloseSessions();
  absl::Status Failed(absl::Status status);
  absl::Status Connect();
  // The feed's slot as it is now, noted for the status too; nothing when there is none.
  absl::StatusOr<std::optional<SlotFacts>> LookAtSlot(absl::Time deadline);
  absl::Status OpenWhole(const v1::Checkpoint& checkpoint);
  // CheckResume at start_, with what the server says of its past.
  absl::Status CheckGoesOn(const v1::PostgresCheckpoint& recorded,
                           const std::optional<SlotFacts>& slot, absl::Time deadline);
  absl::Status OpenFresh(const v1::Checkpoint& checkpoint);
  absl::StatusOr<CaptureBatch> ReadPhase(absl::Time deadline);
  absl::Status CompleteBatch(CaptureBatch* batch);
  // The checkpoint says on which timeline it lies.
  absl::Status KeepTimeline(CaptureBatch* batch);

  absl::StatusOr<DropOutcome> DropHere(const v1::Checkpoint& checkpoint,
                                       const std::function<absl::Status()>& decided);

  absl::Status OpenBroken(const v1::Checkpoint& checkpoint);
  CaptureBatch PrepareHealing();
  absl::Status PreparePublicationAgain(Connection* catalog, absl::Time deadline);
  absl::Status GoOnBehindGap(Lsn consistent);
  absl::Status MarkTablesForReading();
  CaptureBatch FinishHealing();

  CaptureBatch Prepare();
  absl::Status WaitForConfirm(absl::Time deadline);
  absl::Status CreateObjects();
  absl::Status WaitForSlot(absl::Time deadline);
  absl::Status BeginSnapshot(const CreatedSlot& slot);
  absl::Status HoldSnapshot(const CreatedSlot& slot, absl::Time deadline);
  // With the last of the snapshot's rows.
  void NoteSnapshotStates(CaptureBatch* batch);
  absl::StatusOr<CaptureBatch> ReadSnapshot(absl::Time deadline);
  bool KeepsRows(const v1::TableSchema& schema) const;

  // Why stream_in_progress is not in force, though it is configured; else empty.
  std::string WhyAtCommit() const;
  absl::Status StartStreaming();
  absl::StatusOr<CaptureBatch> ReadStream(absl::Time deadline);
  absl::StatusOr<CaptureBatch> ListenUntil(absl::Time deadline);
  // The tables beside the stream; true when the batch is to be returned at once.
  absl::StatusOr<bool> StepTables(CaptureBatch* batch);
  absl::Status LookBeforeSnapshot(Connection* catalog, absl::Time deadline);
  // True: there may be more at hand.
  absl::StatusOr<bool> TakeFrames(CaptureBatch* batch);
  // Adds to `bytes`. False: there is none at the moment.
  absl::StatusOr<bool> TakeFrame(CaptureBatch* batch, size_t* bytes);
  absl::Status TakeReplayed(CaptureBatch* batch, size_t bytes_max, size_t* bytes);
  // An error of the stream; what cannot be held of it is asked for otherwise.
  absl::Status StreamError(absl::Status status) const;
  bool TablesWait() const;
  absl::Status Reply(absl::Time now, absl::Duration timeout = absl::Seconds(5));
  absl::Status CheckSilence(absl::Time now);
  bool FinishBatch(absl::Time now, CaptureBatch* batch);
  absl::Time NextProbe() const;
  absl::Time FenceAskDue() const;
  absl::Time NextWake(absl::Time deadline) const;
  void RefreshSlotFacts(absl::Time now);
  absl::StatusOr<Connection*> Catalog(absl::Time deadline);

  absl::Status CheckStopPossible() const;
  absl::Status CheckStopBehind(Lsn snapshot) const;
  static absl::Status CheckStopAhead(const StopPoint& point, Lsn handed_over);
  void ApplyStop(std::vector<SourceEvent>* events);
  // How much is durable at the server, and its clock; on a session with the catalog.
  std::optional<LogEnd> AskForEnd();

  v1::Checkpoint CheckpointAt(const Position& position, v1::SnapshotPhase phase) const;

  const v1::FeedConfig config_;
  const std::vector<TablePattern> rows_off_;
  TableSelection selection_;
  const std::vector<TablePattern> before_images_;
  const std::string slot_name_;
  const std::string publication_name_;
  const absl::Duration silence_timeout_;
  const absl::Duration catalog_period_;
  Interruption interruption_;
  Interruption nudge_;
  SourceStatus status_;
  TableDesk desk_;
  // Held by every call but Interrupt and the looking ones, so that the keeper stays away meanwhile.
  std::mutex session_mutex_;

  Phase phase_ = Phase::kClosed;
  uint32_t generation_ = 0;
  // Not 0: the feed was polled in the generations before. Written by the owner, read by any thread.
  std::atomic<uint32_t> log_generation_ = 0;
  Target target_;
  ServerFacts server_;
  std::unique_ptr<Connection> replication_;
  std::unique_ptr<Connection> catalog_;
  // Of a standby: asked for its timeline.
  std::unique_ptr<Connection> identity_;
  // Goes with the next batch.
  std::string notice_;
  Lsn consistent_ = 0;
  // PostgresCheckpoint.publication_made.
  bool publication_made_ = false;
  int64_t snapshot_time_us_ = 0;
  StopPoint stop_;
  // Of the newest checkpoint that was handed over.
  Position head_;
  KnownRows* known_rows_ = nullptr;
  TableKeeper::States table_states_;
  // While a break is being healed: the checkpoint that it was opened with.
  std::optional<v1::Checkpoint> healing_;
  // Opened to go on behind a break.
  bool behind_gap_ = false;

  // Before and during the snapshot.
  bool drop_slot_first_ = false;
  int snapshot_attempts_ = 0;
  std::vector<SourceTable> snapshot_tables_;
  absl::Time creation_began_ = absl::InfinitePast();
  absl::Time waiting_asked_ = absl::InfinitePast();
  // Of a standby: while its slot is made, see HoldRows.
  std::unique_ptr<Connection> rows_holder_;
  std::unique_ptr<SnapshotReader> snapshot_;

  // While streaming.
  InProgressSpool in_progress_;
  bool streams_in_progress_ = false;
  Lsn start_ = 0;
  std::optional<Streaming> streaming_;
  std::optional<StandbyReplies> replies_;
  Lsn checkpoint_ = 0;  // of the last batch that carried one
  absl::Time progress_sent_ = absl::InfinitePast();
  bool progress_wanted_ = false;
  ProofProbe probe_;
  bool stop_changed_ = false;
  absl::Time heard_ = absl::InfinitePast();
  std::optional<Silence> silence_;
  absl::Time read_ended_ = absl::InfinitePast();
  absl::Time slot_facts_read_ = absl::InfinitePast();
  std::unique_ptr<TableKeeper> tables_keeper_;
  absl::Time fence_asked_ = absl::InfinitePast();
  Lsn asked_for_ = 0;  // the fence that was due then
  // Last, so that it is gone before what it uses.
  std::unique_ptr<StandbyKeeper> keeper_;
};

}  // namespace tidemark::capture::postgres
