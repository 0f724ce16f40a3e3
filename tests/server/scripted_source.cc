#include "tests/server/scripted_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "proto/reason.h"
#include "proto/schema_id.h"

namespace tidemark::testing {

void ScriptedSource::Yield(capture::CaptureBatch batch) {
  std::lock_guard lock(mutex_);
  script_.emplace_back(std::move(batch));
  changed_.notify_all();
}

void ScriptedSource::Fail(absl::Status error) {
  std::lock_guard lock(mutex_);
  script_.emplace_back(std::move(error));
  changed_.notify_all();
}

void ScriptedSource::FailOpen(absl::Status error) {
  std::lock_guard lock(mutex_);
  open_errors_.push_back(std::move(error));
}

void ScriptedSource::SetStuck(bool stuck) {
  std::lock_guard lock(mutex_);
  stuck_ = stuck;
  changed_.notify_all();
}

void ScriptedSource::SetState(v1::SourceState state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

std::vector<std::string> ScriptedSource::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

size_t ScriptedSource::CountOf(const std::string& event) const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count(events_.begin(), events_.end(), event));
}

absl::Status ScriptedSource::Open(const v1::Checkpoint& checkpoint, uint32_t) {
  std::unique_lock lock(mutex_);
  const auto position = Position::FromBytes(checkpoint.position());
  const v1::RecoveryPolicy policy = checkpoint.broken().policy();
  const bool heals =
      policy == v1::RECOVERY_POLICY_RESNAPSHOT || policy == v1::RECOVERY_POLICY_GAP_AND_CONTINUE;
  events_.push_back(fmt::format("open {}{}", position.ok() ? position->engine_low() : 0,
                                heals ? " heals " + checkpoint.broken().reason() : ""));
  changed_.wait(lock, [this] { return !stuck_; });
  if (!open_errors_.empty()) {
    absl::Status error = std::move(open_errors_.front());
    open_errors_.pop_front();
    if (!error.ok()) return error;
  }
  state_ = v1::SOURCE_STATE_STREAMING;
  return absl::OkStatus();
}

void ScriptedSource::SetEnd(const std::optional<capture::LogEnd>& end) {
  std::lock_guard lock(mutex_);
  end_ = end;
}

void ScriptedSource::SetBounded(absl::Status status) {
  std::lock_guard lock(mutex_);
  bounded_ = std::move(status);
}

std::optional<Position> ScriptedSource::wanted_proof() const {
  std::lock_guard lock(mutex_);
  return wanted_proof_;
}

capture::StopPoint ScriptedSource::stop() const {
  std::lock_guard lock(mutex_);
  return stop_;
}

absl::Status ScriptedSource::StopAt(const capture::StopPoint& point) {
  std::lock_guard lock(mutex_);
  stop_ = point;
  return absl::OkStatus();
}

std::optional<capture::LogEnd> ScriptedSource::SampleEnd() {
  std::lock_guard lock(mutex_);
  return end_;
}

void ScriptedSource::Prove(const std::optional<Position>& upto) {
  std::lock_guard lock(mutex_);
  wanted_proof_ = upto;
}

void ScriptedSource::SetVerify(absl::Status status) {
  std::lock_guard lock(mutex_);
  verify_status_ = std::move(status);
}

capture::VerifyOrder ScriptedSource::verify() const {
  std::lock_guard lock(mutex_);
  return verify_;
}

std::vector<std::string> ScriptedSource::tables() const {
  std::lock_guard lock(mutex_);
  return tables_;
}

void ScriptedSource::UseTables(std::vector<TablePattern> tables) {
  std::lock_guard lock(mutex_);
  tables_.clear();
  for (const TablePattern& table : tables) tables_.push_back(table.Text());
}

absl::Status ScriptedSource::Verify(capture::VerifyOrder order) {
  std::lock_guard lock(mutex_);
  if (!verify_status_.ok()) return verify_status_;
  verify_ = std::move(order);
  return absl::OkStatus();
}

absl::Status ScriptedSource::CheckBounded(const v1::Checkpoint&) const {
  std::lock_guard lock(mutex_);
  return bounded_;
}

absl::StatusOr<capture::CaptureBatch> ScriptedSource::Read(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !stuck_; });
  changed_.wait_until(lock, absl::ToChronoTime(deadline),
                      [this] { return (!script_.empty() && !stuck_) || interrupted_; });
  if (std::exchange(interrupted_, false) || script_.empty()) return capture::CaptureBatch{};
  auto step = std::move(script_.front());
  script_.pop_front();
  if (auto* error = std::get_if<absl::Status>(&step)) return *error;
  return std::move(std::get<capture::CaptureBatch>(step));
}

absl::Status ScriptedSource::Confirm(const Position& durable) {
  std::lock_guard lock(mutex_);
  events_.push_back(fmt::format("confirm {}", durable.engine_low()));
  return absl::OkStatus();
}

void ScriptedSource::Close() {
  std::lock_guard lock(mutex_);
  events_.push_back("close");
  state_ = v1::SOURCE_STATE_CONNECTING;
}

void ScriptedSource::SetDrop(absl::StatusOr<capture::DropOutcome> outcome, bool decides) {
  std::lock_guard lock(mutex_);
  drop_decides_ = decides;
  drop_ = std::move(outcome);
}

absl::StatusOr<capture::DropOutcome> ScriptedSource::DropOwned(
    const v1::Checkpoint&, const std::function<absl::Status()>& decided) {
  absl::StatusOr<capture::DropOutcome> outcome;
  bool decides = true;
  {
    std::lock_guard lock(mutex_);
    outcome = drop_;
    decides = drop_decides_;
  }
  if (decides) {
    if (absl::Status noted = decided(); !noted.ok()) return noted;
  }
  if (!outcome.ok()) return outcome;
  std::lock_guard lock(mutex_);
  events_.push_back("drop");
  return outcome;
}

void ScriptedSource::Interrupt() {
  std::lock_guard lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

void ScriptedSource::FillStatus(v1::FeedStatus* status) const {
  std::lock_guard lock(mutex_);
  status->set_source_state(state_);
}

capture::SourceDescription ScriptedSource::Describe() const {
  std::lock_guard lock(mutex_);
  return {.engine = "scripted",
          .completeness = v1::COMPLETENESS_CLASS_LOG_EXACT,
          .replays_exactly = replays_exactly_,
          .notes = notes_,
          .table_notes = table_notes_};
}

void ScriptedSource::SetNotes(std::vector<std::string> notes,
                              std::vector<capture::TableNote> table_notes) {
  std::lock_guard lock(mutex_);
  notes_ = std::move(notes);
  table_notes_ = std::move(table_notes);
}

std::string ScriptedSource::NativeText(const Position& position) const {
  std::lock_guard lock(mutex_);
  return native_prefix_ + std::to_string(position.engine_low());
}

void ScriptedSource::SetNativePrefix(std::string prefix) {
  std::lock_guard lock(mutex_);
  native_prefix_ = std::move(prefix);
}

absl::StatusOr<Position> ScriptedSource::ParseNative(std::string_view text,
                                                     uint32_t generation) const {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return ErrorWithReason(absl::StatusCode::kInvalidArgument, reason::kRequestInvalid,
                           "expects a number");
  }
  return Position::Of(generation, number).AfterAllOrdinals();
}

v1::TableSchema SampleTable(const std::string& name) {
  v1::TableSchema table;
  table.set_schema_name("public");
  table.set_table_name(name);
  v1::Column* id = table.add_columns();
  id->set_name("id");
  id->set_source_type("bigint");
  id->set_form(v1::VALUE_FORM_INTEGER);
  v1::Column* text = table.add_columns();
  text->set_name("name");
  text->set_source_type("text");
  text->set_form(v1::VALUE_FORM_TEXT);
  table.add_key_columns(0);
  table.set_image_level(v1::IMAGE_LEVEL_KEY);
  table.set_schema_id(SchemaId(table));
  return table;
}

EncodedRun SampleRun(uint64_t first_sequence, const std::vector<int64_t>& ids, v1::Op op,
                     const v1::TableSchema& table) {
  v1::Run run;
  run.add_schema_ids(table.schema_id());
  for (size_t i = 0; i < ids.size(); ++i) {
    v1::Change* change = run.add_changes();
    change->set_op(op);
    change->set_ordinal(static_cast<uint32_t>(i));
    change->add_after()->set_integer(ids[i]);
    change->add_after()->set_text(fmt::format("row {}", ids[i]));
  }
  return {first_sequence, 0, static_cast<uint32_t>(ids.size()), run.SerializeAsString()};
}

EncodedTransaction SampleTransaction(uint64_t number, const std::vector<int64_t>& ids,
                                     const v1::TableSchema& table) {
  EncodedTransaction transaction;
  transaction.position = At(number);
  transaction.runs.push_back(SampleRun(0, ids, v1::OP_INSERT, table));
  transaction.record.set_commit_time_us(static_cast<int64_t>(number) * 1'000'000);
  transaction.record.set_source_transaction_id(std::to_string(number));
  transaction.record.set_changes(ids.size());
  transaction.record.set_origin(v1::ORIGIN_SOURCE);
  transaction.record.add_schema_ids(table.schema_id());
  transaction.record.set_bytes(transaction.runs[0].bytes.size());
  return transaction;
}

Position At(uint64_t number) { return Position::Of(1, number); }

v1::Checkpoint CheckpointAt(uint64_t number) {
  v1::Checkpoint checkpoint;
  checkpoint.set_position(std::string(At(number).bytes()));
  checkpoint.set_snapshot_phase(v1::SNAPSHOT_PHASE_WHOLE);
  return checkpoint;
}

capture::CaptureBatch TransactionBatch(uint64_t number, const std::vector<int64_t>& ids) {
  capture::CaptureBatch batch;
  batch.events.push_back(capture::SchemaSeen{SampleTable()});
  batch.events.push_back(capture::TransactionRead{SampleTransaction(number, ids)});
  batch.checkpoint = CheckpointAt(number);
  return batch;
}

capture::CaptureBatch IdleBatch(uint64_t number) {
  capture::CaptureBatch batch;
  batch.checkpoint = CheckpointAt(number);
  return batch;
}

capture::CaptureBatch SnapshotBegins() {
  capture::CaptureBatch batch;
  batch.checkpoint.emplace().set_snapshot_phase(v1::SNAPSHOT_PHASE_PREPARING);
  return batch;
}

capture::CaptureBatch SnapshotEnds(uint64_t number, const std::vector<int64_t>& ids) {
  capture::CaptureBatch batch;
  batch.events.push_back(capture::SchemaSeen{SampleTable()});
  if (!ids.empty()) {
    batch.events.push_back(capture::SnapshotRows{{SampleRun(0, ids, v1::OP_READ)}});
  }
  batch.events.push_back(capture::SnapshotWhole{At(number)});
  batch.checkpoint = CheckpointAt(number);
  return batch;
}

}  // namespace tidemark::testing
