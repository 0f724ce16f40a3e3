// Captures tables of a database by asking them for what is new, again and again: for databases
// whose log may not be read.
//
//   Open ─ no whole snapshot ─▶ kPreparing ─▶ kSnapshot ─┐ (poll 1: every row)
//     ├── whole snapshot ────────────▶ kWaiting ◀────────┤
//     └── a break to be healed ▶ kHealing ▶──┘           │
//            kWaiting ─▶ kPolling ─▶ kScanning ─▶ kWaiting …  ─▶ kFinished
//
// One poll is one snapshot of the source, one transaction of the feed, and one position.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "capture/poll/key_scan.h"
#include "capture/poll/poll_engine.h"
#include "capture/poll/poll_schedule.h"
#include "capture/poll/poll_settings.h"
#include "capture/poll/poll_sight.h"
#include "capture/poll/poll_status_board.h"
#include "capture/poll/poll_verifier.h"
#include "capture/poll/row_comparison.h"
#include "capture/poll/table_poll.h"
#include "capture/postgres/table_desk.h"
#include "capture/source.h"
#include "capture/transaction_builder.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture {
namespace poll {

// What is under way between BeginPoll and EndPoll.
struct PollRun {
  PollMoment moment;
  absl::Time began;
  // Whatever its stamp.
  bool tells_all = false;
  size_t table = 0;
  std::optional<TablePoll> polled;
  // Of the initial reading: where the rows go on.
  std::vector<std::string> after_key;
  std::vector<uint64_t> rows;
  uint64_t rows_read = 0;
  // Since a batch was returned.
  size_t snapshot_bytes = 0;
  absl::Time scan_until;
  // Parts of its transaction were handed over.
  bool large = false;
};

}  // namespace poll

class PollSource final : public Source {
 public:
  // REQUIRES: config.has_poll(), and the configuration was checked.
  explicit PollSource(const v1::FeedConfig& config);
  ~PollSource() override;

  void UseKnownRows(KnownRows* known) override;
  absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) override;
  absl::StatusOr<CaptureBatch> Read(absl::Time deadline) override;
  absl::Status Confirm(const Position& durable) override;
  void Close() override;
  absl::Status StopAt(const StopPoint& point) override;
  std::optional<LogEnd> SampleEnd() override;
  void Prove(const std::optional<Position>& upto) override;
  absl::Status OrderTable(TableOrder order) override;
  absl::Status Verify(VerifyOrder order) override;
  void Nudge() override;
  void Interrupt() override;
  void FillStatus(v1::FeedStatus* status) const override;
  SourceDescription Describe() const override;
  absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const override;
  std::string NativeText(const Position& position) const override;
  absl::StatusOr<Position> ParseNative(std::string_view text, uint32_t generation) const override;

  // For the thread of Read, for those who look for the end of polling in the log:
  // Of the last poll that came to its end since Open; everything that it told was handed over.
  const std::optional<PollSight>& last_sight() const { return sight_; }
  // From the next poll on, also rows are told that are stamped above the fence: everything that its
  // snapshot sees of what lies in the window. The bounds do not rise meanwhile.
  void TellAll(bool all) { tells_all_ = all; }

 private:
  enum class Phase {
    kClosed,
    kPreparing,
    kSnapshot,
    kHealing,
    kWaiting,
    kPolling,
    kScanning,
    kFinished
  };

  void Enter(Phase phase, v1::SourceState state, std::string detail);
  absl::Status OpenBroken(const v1::Checkpoint& checkpoint);
  // One state for each table of the settings, in their order; of a table that is new, a fresh one.
  void AlignStates();
  v1::PolledTableState* StateOf(v1::PollCheckpoint* checkpoint, size_t table) const;
  v1::Checkpoint CheckpointAt(const Position& position, v1::SnapshotPhase phase) const;

  absl::StatusOr<CaptureBatch> ReadPhases(absl::Time deadline);
  // True: the batch is to be returned.
  absl::StatusOr<bool> Step(absl::Time deadline, CaptureBatch* batch);
  bool Wait(absl::Time until);
  void TakeOrders(absl::Time now);
  bool FinishIfDue(CaptureBatch* batch);

  absl::Status BeginRun();
  absl::StatusOr<bool> BeginNext(absl::Time deadline, CaptureBatch* batch);
  absl::Status BeginSnapshot(CaptureBatch* batch);
  absl::StatusOr<bool> StepSnapshot(CaptureBatch* batch);
  absl::StatusOr<bool> EndSnapshot(CaptureBatch* batch);
  absl::StatusOr<bool> StepPoll(CaptureBatch* batch);
  absl::StatusOr<bool> EndPoll(CaptureBatch* batch);
  void HandOver(CaptureBatch* batch);
  absl::StatusOr<bool> StepScan(CaptureBatch* batch);
  absl::StatusOr<bool> EndScans(CaptureBatch* batch);
  absl::StatusOr<bool> ScanChunk(size_t table, CaptureBatch* batch);
  absl::Status VerifyChunk(size_t table);
  std::optional<size_t> TableToScan();
  void NoteSight();
  // What was handed over last is stored: the status may say so.
  void ShowStored();
  void BeginDueScans();
  // The first error among all tables, when none is polled any more.
  absl::Status AllRefused(const v1::PollCheckpoint& checkpoint) const;
  absl::Status LeaveOut(size_t table, const absl::Status& error, v1::PollCheckpoint* checkpoint);
  // A run that the source gave up is begun again, a few times.
  absl::Status GiveUpRun(const absl::Status& error, CaptureBatch* batch);
  void Announce(const v1::TableSchema& schema, CaptureBatch* batch);
  bool WantsBefore(size_t table) const { return wants_before_[table]; }
  bool IsScanning() const;

  const std::string feed_;
  const absl::StatusOr<poll::PollSettings> settings_;
  const std::unique_ptr<poll::PollEngine> engine_;
  std::vector<bool> wants_before_;
  KnownRows* known_ = nullptr;
  std::unique_ptr<poll::RowComparison> comparison_;
  std::unique_ptr<poll::KeyScan> scan_;
  size_t scanned_table_ = 0;
  std::unique_ptr<poll::PollVerifier> verifier_;
  poll::PollSchedule schedule_;
  poll::RowBudget budget_;
  poll::PollStatusBoard board_;
  // Of the poll that was handed over last, until it is shown.
  std::optional<poll::PollTally> to_show_;
  // Of a scan, likewise: what it handed over last is not shown yet.
  bool tables_to_show_ = false;
  postgres::TableDesk desk_;

  Phase phase_ = Phase::kClosed;
  // It was not opened yet.
  bool is_new_ = true;
  uint32_t generation_ = 0;
  int64_t snapshot_time_us_ = 0;
  StopPoint stop_;
  std::optional<v1::BreakRecord> healing_;
  // As it was handed over last, and as the run makes it.
  v1::PollCheckpoint done_;
  v1::PollCheckpoint work_;
  Position head_;
  absl::Time checkpointed_ = absl::InfinitePast();
  std::string notice_;
  // What became of the connection between two Reads.
  absl::Status failed_;

  std::optional<poll::PollRun> run_;
  // Tables that the present run reads, as they look.
  std::vector<std::optional<poll::PolledShape>> shapes_;
  absl::flat_hash_set<uint64_t> announced_;
  TransactionBuilder builder_;
  uint64_t handle_ = 0;
  int conflicts_ = 0;
  std::optional<PollSight> sight_;
  bool tells_all_ = false;

  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool nudged_ = false;       // protected by wake_mutex_
  bool interrupted_ = false;  // protected by wake_mutex_
};

}  // namespace tidemark::capture
