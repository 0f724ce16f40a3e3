// A source that yields what a test says, and records what it is told.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "capture/source.h"

namespace tidemark::testing {

// Thread rule: safe from any thread; the script may grow while the loop runs.
class ScriptedSource final : public capture::Source {
 public:
  explicit ScriptedSource(bool replays_exactly = true) : replays_exactly_(replays_exactly) {}

  // The script. A batch is read once; an error ends the connection.
  void Yield(capture::CaptureBatch batch);
  void Fail(absl::Status error);
  // The next calls of Open fail with these, one each.
  void FailOpen(absl::Status error);
  // Read and Open ignore deadlines and interrupts while true, as a source that hangs in the kernel.
  void SetStuck(bool stuck);
  void SetState(v1::SourceState state);
  // What SampleEnd answers; nothing at first.
  void SetEnd(const std::optional<capture::LogEnd>& end);
  // Not OK: bounds are not proved.
  void SetBounded(absl::Status status);
  // The last that Prove and StopAt were called with.
  std::optional<Position> wanted_proof() const;
  capture::StopPoint stop() const;
  // What DropOwned comes to; an error before that is decided, or behind it. Nothing at first.
  void SetDrop(absl::StatusOr<capture::DropOutcome> outcome, bool decides = true);
  // What Describe says beside the engine.
  void SetNotes(std::vector<std::string> notes, std::vector<capture::TableNote> table_notes);
  // What stands before the number of a position that people read; nothing at first.
  void SetNativePrefix(std::string prefix);
  // What Verify answers, and the last order that it took.
  void SetVerify(absl::Status status);
  capture::VerifyOrder verify() const;

  // The last that UseTables was called with, as text.
  std::vector<std::string> tables() const;

  // What happened, in order: "open POSITION" ("open POSITION heals REASON" with a break that is to
  // be healed), "confirm POSITION", "close", "drop"; positions as their engine's number.
  std::vector<std::string> events() const;
  size_t CountOf(const std::string& event) const;

  absl::Status Open(const v1::Checkpoint& checkpoint, uint32_t generation) override;
  absl::StatusOr<capture::CaptureBatch> Read(absl::Time deadline) override;
  absl::Status Confirm(const Position& durable) override;
  void Close() override;
  absl::StatusOr<capture::DropOutcome> DropOwned(
      const v1::Checkpoint& checkpoint, const std::function<absl::Status()>& decided) override;
  absl::Status StopAt(const capture::StopPoint& point) override;
  std::optional<capture::LogEnd> SampleEnd() override;
  void Prove(const std::optional<Position>& upto) override;
  absl::Status Verify(capture::VerifyOrder order) override;
  void UseTables(std::vector<TablePattern> tables) override;
  absl::Status CheckBounded(const v1::Checkpoint& checkpoint) const override;
  void Interrupt() override;
  void FillStatus(v1::FeedStatus* status) const override;
  capture::SourceDescription Describe() const override;
  std::string NativeText(const Position& position) const override;
  absl::StatusOr<Position> ParseNative(std::string_view text, uint32_t generation) const override;

 private:
  const bool replays_exactly_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::variant<capture::CaptureBatch, absl::Status>> script_;
  std::deque<absl::Status> open_errors_;
  std::vector<std::string> events_;
  bool stuck_ = false;
  bool interrupted_ = false;
  std::optional<capture::LogEnd> end_;
  std::optional<Position> wanted_proof_;
  capture::StopPoint stop_;
  absl::Status bounded_;
  absl::StatusOr<capture::DropOutcome> drop_ = capture::DropOutcome();
  bool drop_decides_ = true;
  absl::Status verify_status_;
  capture::VerifyOrder verify_;
  std::vector<std::string> tables_;
  std::vector<std::string> notes_;
  std::string native_prefix_;
  std::vector<capture::TableNote> table_notes_;
  v1::SourceState state_ = v1::SOURCE_STATE_CONNECTING;
};

// Table public.NAME (id bigint primary key, name text).
v1::TableSchema SampleTable(const std::string& name = "orders");
// A transaction of generation 1 at `number` that inserts rows with these ids.
EncodedTransaction SampleTransaction(uint64_t number, const std::vector<int64_t>& ids,
                                     const v1::TableSchema& table = SampleTable());
// One run with these rows, from `first_sequence` on.
EncodedRun SampleRun(uint64_t first_sequence, const std::vector<int64_t>& ids, v1::Op op,
                     const v1::TableSchema& table = SampleTable());

Position At(uint64_t number);
v1::Checkpoint CheckpointAt(uint64_t number);

// Batches: one transaction; nothing but a checkpoint; the two of an empty snapshot.
capture::CaptureBatch TransactionBatch(uint64_t number, const std::vector<int64_t>& ids);
capture::CaptureBatch IdleBatch(uint64_t number);
capture::CaptureBatch SnapshotBegins();
capture::CaptureBatch SnapshotEnds(uint64_t number, const std::vector<int64_t>& ids = {});

}  // namespace tidemark::testing
