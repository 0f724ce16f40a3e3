// A feed that is polled until it is ordered to be captured from the log, and captured from the log
// from then on. One feed, one order of positions: the log begins a generation of its own.
//
// While the log is prepared, polling goes on, and nothing that goes wrong with the log stops it.
// The switch is one batch: the checkpoint of the log behind everything that the last poll saw. From
// it on, every table is compared with what is known of it, beside the stream, as behind a break;
// but nothing is missing, so that no Gap stands there (the record that begins the generation has no
// reason, which is not shown to anybody).
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "capture/migration/log_side.h"
#include "capture/migration/migration_order.h"
#include "capture/migration/migration_steps.h"
#include "capture/migration/order_desk.h"
#include "capture/migration/switch_place.h"
#include "capture/source.h"

namespace tidemark::capture {

// Between two attempts at a step that failed.
inline constexpr absl::Duration kMigrationRetryPeriod = absl::Seconds(1);
// How long a poll is waited for while the slot is being made, or moved part by part.
inline constexpr absl::Duration kPreparingPeriod = absl::Milliseconds(100);

class MigratingSource final : public Source, public Migrating {
 public:
  struct Parts {
    std::string feed;
    // By the configuration.
    std::vector<PolledKey> tables;
    std::unique_ptr<Source> poll;
    std::unique_ptr<Source> log;
    std::unique_ptr<LogSide> side;
    // What the last poll saw that came to its end since the poll source was opened.
    std::function<std::optional<PollSight>()> sight;
    // Whether polls from the next one on tell all that they see, or leave what is stamped newly to
    // the one behind them.
    std::function<void(bool)> tell_all;
  };

  explicit MigratingSource(Parts parts);
  ~MigratingSource() override;

  void OrderMigration(MigrationOrder order) override;

  void UseKnownRows(KnownRows* known) override;
  absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) override;
  absl::StatusOr<CaptureBatch> Read(absl::Time deadline) override;
  absl::Status Confirm(const Position& durable) override;
  void Close() override;
  absl::StatusOr<DropOutcome> DropOwned(const v1::Checkpoint& checkpoint,
                                        const std::function<absl::Status()>& decided) override;
  absl::Status StopAt(const StopPoint& point) override;
  std::optional<LogEnd> SampleEnd() override;
  void Prove(const std::optional<Position>& upto) override;
  void Remember(std::vector<v1::TableState> states) override;
  absl::Status OrderTable(TableOrder order) override;
  void UseTables(std::vector<TablePattern> tables) override;
  absl::Status Verify(VerifyOrder order) override;
  void Nudge() override;
  void Interrupt() override;
  void FillStatus(v1::FeedStatus* status) const override;
  SourceDescription Describe() const override;
  absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const override;
  std::string NativeText(const Position& position) const override;
  absl::StatusOr<Position> ParseNative(std::string_view text, uint32_t generation) const override;

 private:
  using Name = std::pair<std::string, std::string>;

  // The source that yields the feed now.
  Source& Active() const { return from_log_ ? *parts_.log : *parts_.poll; }
  v1::MigrationRecord& record() { return *newest_.mutable_migration(); }

  absl::StatusOr<CaptureBatch> ReadPolled(absl::Time deadline);
  absl::StatusOr<CaptureBatch> ReadLog(absl::Time deadline);
  void NotePolled(CaptureBatch* batch);
  uint64_t PollsEnded() const;
  void TellAllOrNot();
  void NoteLogged(CaptureBatch* batch);
  // Every table that was polled was compared.
  bool IsReconciled() const;

  void TakeOrders();
  void CarryOut(MigrationOrder order);
  void BeginCheck(MigrationOrder order);
  void CollectCheck();
  void EndCheck(const absl::Status& why);
  std::vector<PolledKey> KeysKnown() const;

  // Each yields a batch where the phase changes.
  std::optional<CaptureBatch> TakeStep();
  std::optional<CaptureBatch> Prepare();
  std::optional<CaptureBatch> Switch();
  std::optional<CaptureBatch> TakeAway();
  CaptureBatch Prepared(const CaptureBatch& behind_gap);
  // From the slot as it stands; ABORTED when it does not stand at `at`.
  absl::StatusOr<CaptureBatch> OpenLogAt(postgres::Lsn at);
  CaptureBatch PrepareAgain(const std::string& why);
  // The checkpoint as it is, in another phase.
  CaptureBatch Enter(v1::MigrationPhase phase, const std::string& message);
  CaptureBatch NoteRecord();
  std::nullopt_t TryAgain(const std::string& why);
  void Say(const std::string& message);
  void ShowStatus();

  const Parts parts_;
  OrderDesk desk_;
  // Written by the source's thread, read by any.
  std::atomic<bool> from_log_ = false;
  // Of the first generation of the log; 0 where it is not known.
  std::atomic<uint32_t> log_generation_ = 0;
  mutable std::mutex status_mutex_;
  v1::MigrationStatus status_;  // protected by status_mutex_

  KnownRows* known_ = nullptr;
  std::vector<v1::TableState> remembered_;
  // Tables of the log that are not compared to their end.
  std::set<Name> not_compared_;
  bool is_open_ = false;
  // As handed over last.
  v1::Checkpoint newest_;
  // What was handed over is in the store.
  bool durable_ = true;
  // The record says something else since.
  bool to_note_ = false;
  // A poll is handed over in part.
  bool within_poll_ = false;
  // Polls that had ended when the slot was there.
  uint64_t polls_before_slot_ = 0;
  bool has_fresh_poll_ = false;
  int switches_tried_ = 0;
  // The slot holds more of what the last poll saw.
  bool moved_in_part_ = false;
  bool log_open_ = false;
  absl::Time not_before_ = absl::InfinitePast();
  StopPoint stop_;
  std::optional<Position> wanted_proof_;
  bool told_unused_poll_ = false;

  // The order whose migration is being checked, and the one that waits until its phase is durable.
  std::optional<MigrationOrder> checked_;
  std::future<absl::StatusOr<LogPlan>> check_;
  std::vector<MigrationOrder> waiting_;
};

}  // namespace tidemark::capture
