#include "tests/capture/source_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "capture/source_factory.h"
#include "proto/reason.h"
#include "proto/value_json.h"
#include "tests/testing/wait_until.h"

namespace tidemark::capture {
namespace {

std::string Escaped(const std::string& bytes) {
  return absl::CHexEscape(absl::string_view(bytes.data(), bytes.size()));
}

template <class Values>
std::string Row(const Values& values, const std::vector<std::string>& names) {
  std::string text;
  for (int i = 0; i < values.size(); ++i) {
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", names[i], ValueText(values[i]));
  }
  return text;
}

}  // namespace

std::string ValueText(const v1::Value& value) {
  switch (value.kind_case()) {
    case v1::Value::KIND_NOT_SET:
      return "-";
    case v1::Value::kNull:
      return "null";
    case v1::Value::kBoolean:
      return value.boolean() ? "true" : "false";
    case v1::Value::kInteger:
      return std::to_string(value.integer());
    case v1::Value::kUnsignedInteger:
      return std::to_string(value.unsigned_integer());
    case v1::Value::kFloat32:
      return fmt::format("{}f", value.float32());
    case v1::Value::kFloat64:
      return fmt::format("{}d", value.float64());
    case v1::Value::kDecimal:
      return value.decimal();
    case v1::Value::kText:
      return value.text();
    case v1::Value::kBinary:
      return "\\x" + absl::BytesToHexString(
                         absl::string_view(value.binary().data(), value.binary().size()));
    case v1::Value::kJson:
      return value.json();
    case v1::Value::kTemporal:
      return value.temporal();
    case v1::Value::kList: {
      std::string text;
      for (const v1::Value& item : value.list().items()) {
        text += (text.empty() ? "" : ",") + ValueText(item);
      }
      return "[" + text + "]";
    }
    case v1::Value::kComposite: {
      std::string text;
      for (const v1::Value& field : value.composite().fields()) {
        text += (text.empty() ? "" : ",") + ValueText(field);
      }
      return "(" + text + ")";
    }
    case v1::Value::kInParts:
      return fmt::format("<{} bytes in parts>", value.in_parts().size_bytes());
  }
  return "?";
}

std::string SeenChange::Text() const {
  std::vector<std::string> names;
  std::vector<std::string> keys;
  for (const v1::Column& column : schema.columns()) names.push_back(column.name());
  for (uint32_t key : schema.key_columns()) keys.push_back(names[key]);
  std::string text = OpText(change.op()) + " " + schema.table_name();
  if (change.key_change()) text += " key_change";
  if (change.after_size() > 0) text += " " + Row(change.after(), names);
  if (change.before_size() > 0) text += fmt::format(" before({})", Row(change.before(), names));
  if (change.key_size() > 0) text += fmt::format(" key({})", Row(change.key(), keys));
  return text;
}

SourceDriver::SourceDriver(v1::FeedConfig config) : config_(std::move(config)) {
  scratch_folder = scratch_.path();
  Restart();
}

void SourceDriver::Restart() {
  absl::StatusOr<std::unique_ptr<Source>> source = MakeSource(config_, scratch_folder);
  ASSERT_TRUE(source.ok()) << source.status();
  source_ = *std::move(source);
  open_ = false;
  finished.reset();
  parts_.clear();
}

absl::Status SourceDriver::Open() {
  parts_.clear();
  absl::Status status = source_->Open(checkpoint, /*generation=*/1);
  open_ = status.ok();
  return status;
}

absl::Status SourceDriver::ReadOnce(std::chrono::milliseconds wait) {
  absl::StatusOr<CaptureBatch> batch =
      source_->Read(absl::Now() + absl::Milliseconds(wait.count()));
  if (!batch.ok()) {
    open_ = false;
    return batch.status();
  }
  const bool has_checkpoint = batch->checkpoint.has_value();
  Keep(*std::move(batch));
  if (!has_checkpoint || !confirms) return absl::OkStatus();
  absl::Status status = source_->Confirm(*Position::FromBytes(checkpoint.position()));
  if (!status.ok()) open_ = false;
  return status;
}

::testing::AssertionResult SourceDriver::ReadUntil(const std::function<bool()>& done,
                                                   std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline * testing::kDeadlineFactor;
  while (!done()) {
    absl::Status status = open_ ? ReadOnce() : Open();
    if (!status.ok()) {
      last_error = status;
      errors.push_back(std::string(status.message()));
      if (!IsRetried(status)) {
        return ::testing::AssertionFailure() << "source failed: " << status;
      }
      // As the server does between attempts, but shorter.
      testing::WaitUntil([] { return false; }, std::chrono::milliseconds(20));
    }
    if (std::chrono::steady_clock::now() >= end) {
      return ::testing::AssertionFailure()
             << "not reached; " << transactions.size() << " transactions, last error " << last_error
             << ", status " << Status().ShortDebugString();
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult SourceDriver::ReadUntilTransactions(size_t count) {
  return ReadUntil([&] { return transactions.size() >= count; });
}

::testing::AssertionResult SourceDriver::ReadUntilWhole() {
  return ReadUntil(
      [&] { return whole.has_value() && Status().source_state() == v1::SOURCE_STATE_STREAMING; });
}

::testing::AssertionResult SourceDriver::ReadUntilCaughtUp(testing::LivePostgres& postgres) {
  const absl::StatusOr<std::string> flush =
      postgres.QueryValue("SELECT pg_current_wal_flush_lsn() - '0/0'");
  if (!flush.ok()) return ::testing::AssertionFailure() << flush.status();
  const uint64_t goal = std::stoull(*flush);
  return ReadUntil([&] { return checkpoint_lsn() >= goal; });
}

v1::FeedStatus SourceDriver::Status() const {
  v1::FeedStatus status;
  source_->FillStatus(&status);
  return status;
}

uint64_t SourceDriver::checkpoint_lsn() const {
  if (checkpoint.snapshot_phase() != v1::SNAPSHOT_PHASE_WHOLE) return 0;
  return Position::FromBytes(checkpoint.position())->engine_low();
}

std::vector<std::string> SourceDriver::Changes() const {
  std::vector<std::string> texts;
  for (const SeenTransaction& transaction : transactions) {
    for (const SeenChange& change : transaction.changes) texts.push_back(change.Text());
  }
  return texts;
}

std::vector<std::string> SourceDriver::SnapshotRows() const {
  std::vector<std::string> texts;
  for (const SeenChange& row : snapshot_rows) texts.push_back(row.Text());
  return texts;
}

std::vector<SeenChange> SourceDriver::Decode(const std::vector<EncodedRun>& runs) const {
  std::vector<SeenChange> changes;
  for (const EncodedRun& encoded : runs) {
    v1::Run run;
    EXPECT_TRUE(run.ParseFromString(encoded.bytes)) << Escaped(encoded.bytes.substr(0, 200));
    EXPECT_EQ(static_cast<uint32_t>(run.changes_size()), encoded.changes);
    for (const v1::Change& change : run.changes()) {
      const uint64_t id = run.schema_ids(static_cast<int>(change.table()));
      const auto schema = schemas.find(id);
      EXPECT_NE(schema, schemas.end()) << "a run names schema " << id << " before it was seen";
      if (schema == schemas.end()) continue;
      changes.push_back({encoded.first_sequence + change.ordinal(), schema->second, change});
    }
  }
  return changes;
}

void SourceDriver::Keep(CaptureBatch batch) {
  const auto add = [this](const Position& position, v1::CommitRecord record,
                          const std::vector<EncodedRun>& runs, bool large) {
    if (!transactions.empty()) {
      EXPECT_LT(transactions.back().position, position) << "positions must rise";
    }
    SeenTransaction transaction{position, std::move(record), Decode(runs), {}, large};
    for (const EncodedRun& run : runs) transaction.run_bytes.push_back(run.bytes);
    transactions.push_back(std::move(transaction));
  };
  for (SourceEvent& event : batch.events) {
    if (auto* seen = std::get_if<SchemaSeen>(&event)) {
      schemas[seen->schema.schema_id()] = seen->schema;
    } else if (auto* read = std::get_if<TransactionRead>(&event)) {
      add(read->transaction.position, read->transaction.record, read->transaction.runs, false);
    } else if (auto* part = std::get_if<LargePart>(&event)) {
      ++large_parts;
      std::vector<EncodedRun>& runs = parts_[part->handle];
      std::move(part->runs.begin(), part->runs.end(), std::back_inserter(runs));
    } else if (auto* committed = std::get_if<LargeCommitted>(&event)) {
      add(committed->position, committed->record, parts_[committed->handle], true);
      parts_.erase(committed->handle);
    } else if (auto* aborted = std::get_if<LargeAborted>(&event)) {
      parts_.erase(aborted->handle);
    } else if (auto* joined = std::get_if<LargeJoined>(&event)) {
      std::vector<EncodedRun>& runs = parts_[joined->handle];
      for (EncodedRun& run : parts_[joined->tail]) {
        run.first_sequence += joined->first_sequence;
        runs.push_back(std::move(run));
      }
      parts_.erase(joined->tail);
    } else if (auto* rows = std::get_if<capture::SnapshotRows>(&event)) {
      for (SeenChange& row : Decode(rows->runs)) snapshot_rows.push_back(std::move(row));
    } else if (auto* snapshot = std::get_if<SnapshotWhole>(&event)) {
      whole = snapshot->position;
    }
  }
  if (batch.finished) {
    EXPECT_TRUE(batch.checkpoint.has_value());
    EXPECT_FALSE(finished.has_value()) << "it ended twice";
    finished = batch.finished;
  }
  if (!batch.notice.empty()) notices.push_back(batch.notice);
  if (batch.checkpoint) {
    checkpoint = *batch.checkpoint;
    // A snapshot that begins anew forgets what an earlier one read.
    if (checkpoint.snapshot_phase() == v1::SNAPSHOT_PHASE_PREPARING) snapshot_rows.clear();
  }
}

v1::FeedConfig FeedOf(const testing::LivePostgres& postgres,
                      const std::vector<std::string>& tables) {
  v1::FeedConfig config;
  config.set_name("shop");
  v1::PostgresConfig* source = config.mutable_postgres();
  source->set_host("127.0.0.1");
  source->set_port(postgres.port());
  source->set_database("postgres");
  source->set_user("postgres");
  for (const std::string& table : tables) source->add_tables(table);
  return config;
}

}  // namespace tidemark::capture
