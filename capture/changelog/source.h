// Captures a changelog: a table of a PostgreSQL database that triggers fill with every change of
// others. Pull by pull, each READ ONLY and under one snapshot.
//
//   Open ─ no whole snapshot ─▶ kPreparing ─▶ kBeginning ─▶ kIdle ◀─▶ kPulling
//     ├── whole snapshot ─────────────────────────────────▶ kIdle
//     └── a break to be healed ─▶ kHealing ───────────────▶ kIdle
//
// The initial snapshot has no rows, since no other table is read: the log begins with everything
// that the changelog holds. The position is the number of the transaction that is told.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "capture/changelog/pull.h"
#include "capture/changelog/settings.h"
#include "capture/changelog/statements.h"
#include "capture/changelog/status.h"
#include "capture/changelog/table_facts.h"
#include "capture/changelog/transaction_assembler.h"
#include "capture/changelog/trimmer.h"
#include "capture/postgres/connection.h"
#include "capture/postgres/server_identity.h"
#include "capture/source.h"
#include "tidemark/v1/config.pb.h"

namespace tidemark::capture::changelog {

// What one Read hands over at most, plus the one row that passes the bound.
inline constexpr size_t kBatchBytesMax = 1 << 20;
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(15);
// The question where the log ends must not hold capture up.
inline constexpr absl::Duration kSampleTimeout = absl::Seconds(1);
// How often it is asked who holds the watermark back, while rows wait.
inline constexpr absl::Duration kHolderPeriod = absl::Seconds(1);
inline constexpr uint64_t kWaitingRowsMax = 100'000;
// Between two pulls while somebody waits for what is to come.
inline constexpr absl::Duration kProvePeriod = absl::Milliseconds(20);

// The server, its table and its place in time against what the checkpoint tells. SOURCE_REPLACED,
// SOURCE_TIMELINE_CHANGED: a server that was promoted may give out transaction ids and numbers
// again that were told; and which of what was told it has cannot be known. Pure.
absl::Status CheckSame(const v1::ChangelogCheckpoint& told, const v1::ChangelogCheckpoint& present,
                       const std::string& where);

// Whether the table can still be the one that was read: SOURCE_REPLACED, SOURCE_REWOUND. `trimmed`:
// its highest number proves nothing. A standby may be behind. Pure.
absl::Status CheckNotRewound(const v1::ChangelogCheckpoint& told, const PullBegun& begun,
                             uint32_t table_oid, bool trimmed, bool in_recovery);

class ChangelogSource final : public Source {
 public:
  explicit ChangelogSource(const v1::FeedConfig& config);
  ~ChangelogSource() override;

  absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) override;
  absl::StatusOr<CaptureBatch> Read(absl::Time deadline) override;
  absl::Status Confirm(const Position& durable) override;
  void Close() override;
  absl::Status StopAt(const StopPoint& point) override;
  std::optional<LogEnd> SampleEnd() override;
  void Prove(const std::optional<Position>& upto) override;
  absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const override;
  void Nudge() override { nudge_.Raise(); }
  void Interrupt() override { interruption_.Raise(); }
  void FillStatus(v1::FeedStatus* status) const override;
  SourceDescription Describe() const override;
  std::string NativeText(const Position& position) const override;
  absl::StatusOr<Position> ParseNative(std::string_view text, uint32_t generation) const override;

 private:
  enum class Phase { kClosed, kPreparing, kBeginning, kHealing, kIdle, kPulling };

  void Enter(Phase phase, std::string cause);
  absl::Status Failed(absl::Status status);
  absl::Status Connect();
  absl::Status OpenWhole(const v1::Checkpoint& checkpoint);
  absl::Status OpenBroken(const v1::Checkpoint& checkpoint);
  absl::StatusOr<CaptureBatch> ReadPhase(absl::Time deadline);

  CaptureBatch Prepare();
  CaptureBatch Begin();
  CaptureBatch Heal();
  absl::Status WaitUntilDue(absl::Time deadline);
  absl::Status BeginPull(absl::Time deadline);
  absl::StatusOr<CaptureBatch> ReadPull(absl::Time deadline);
  // Everything of the pull was told.
  absl::Status FinishPull();
  absl::Status LookAtWatermark(PullReport* report);
  absl::Status AskWhoWaits(PullReport* report);
  absl::Status Trim();

  absl::Status CheckStopPossible(const StopPoint& point) const;
  absl::Status CheckStopAhead(const StopPoint& point) const;
  bool at_stop() const;
  // Adds the checkpoint, and the end where it is reached.
  void CompleteBatch(CaptureBatch* batch);
  void NoteHandedOver();
  v1::Checkpoint CheckpointNow(v1::SnapshotPhase phase) const;
  Position PositionNow() const { return Position::Of(generation_, told_.transactions()); }

  const v1::FeedConfig config_;
  const absl::StatusOr<Settings> settings_;
  postgres::Interruption interruption_;
  postgres::Interruption nudge_;
  Status status_;
  // Held by every call but Interrupt and the looking ones.
  std::mutex session_mutex_;

  Phase phase_ = Phase::kClosed;
  uint32_t generation_ = 0;
  postgres::Target target_;
  postgres::ServerIdentity server_;
  std::optional<Statements> statements_;
  std::unique_ptr<postgres::Connection> session_;
  bool has_old_rows_ = false;
  std::optional<TransactionAssembler> assembler_;
  std::optional<Trimmer> trimmer_;
  // What was handed over; whom and what it was read from.
  v1::ChangelogCheckpoint told_;
  int64_t snapshot_time_us_ = 0;
  StopPoint stop_;
  bool finished_ = false;
  // While a break is being healed.
  std::optional<v1::Checkpoint> healing_;

  // With the newest batch that had one.
  v1::ChangelogCheckpoint handed_over_;
  Position handed_over_at_;

  std::unique_ptr<Pull> pull_;
  PullReport report_;
  absl::Time pull_due_ = absl::InfinitePast();
  PullReport waiting_;  // what was found when it was last asked who waits for whom
  absl::Time holder_asked_ = absl::InfinitePast();
  // What went wrong outside of a Read, for the next one.
  absl::Status lost_;
  bool resumes_ = false;  // the pull in progress is the rest of one before
};

}  // namespace tidemark::capture::changelog
