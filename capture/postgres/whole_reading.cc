#include "capture/postgres/whole_reading.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "capture/postgres/partition_tree.h"
#include "capture/postgres/row_encoder.h"
#include "capture/postgres/sql_text.h"
#include "capture/transaction_builder.h"
#include "proto/reason.h"

namespace tidemark::capture::postgres {
namespace {

constexpr absl::Duration kWholeStepTimeout = absl::Seconds(60);

std::string CopySql(const SourceTable& table, const RowShape& shape,
                    const std::string& row_filter) {
  std::string columns;
  for (const std::string& name : shape.column_names) {
    columns += (columns.empty() ? "" : ", ") + QuoteIdentifier(name);
  }
  return fmt::format("COPY (SELECT {} FROM {}{}) TO STDOUT", columns, table.FromSql(),
                     row_filter.empty() ? "" : " WHERE (" + row_filter + ")");
}

}  // namespace

class WholeReading::Handover {
 public:
  explicit Handover(std::function<void()> wake) : wake_(std::move(wake)) {}

  void Begin(TableChunk chunk) {
    {
      std::lock_guard lock(mutex_);
      begun_ = std::move(chunk);
    }
    wake_();
  }
  // Waits for room. False: nobody wants it any more.
  bool Put(std::vector<EncodedRun> runs) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || bytes_ < kWholeAheadBytesMax; });
      if (ended_) return false;
      for (EncodedRun& run : runs) {
        bytes_ += run.bytes.size();
        runs_.push_back(std::move(run));
      }
    }
    wake_();
    return true;
  }

  bool HasNews() const {
    std::lock_guard lock(mutex_);
    return begun_.has_value() || !runs_.empty();
  }
  std::optional<TableChunk> TakeBegun() {
    std::lock_guard lock(mutex_);
    return std::exchange(begun_, std::nullopt);
  }
  std::vector<EncodedRun> Take() {
    std::vector<EncodedRun> piece;
    {
      std::lock_guard lock(mutex_);
      for (size_t bytes = 0; !runs_.empty() && bytes < kWholePieceBytesMax;) {
        bytes += runs_.front().bytes.size();
        bytes_ -= runs_.front().bytes.size();
        piece.push_back(std::move(runs_.front()));
        runs_.pop_front();
      }
    }
    changed_.notify_all();
    return piece;
  }
  void End() {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<TableChunk> begun_;  // all below protected by mutex_
  std::deque<EncodedRun> runs_;
  size_t bytes_ = 0;
  bool ended_ = false;
};

namespace {

absl::Status CheckReadable(const TableChunk& chunk, const SourceTable& table) {
  if (!chunk.relation.shape.key_columns.empty()) {
    return absl::FailedPreconditionError(fmt::format("table {} has a key", table.Text()));
  }
  if (!chunk.in_recovery) return absl::OkStatus();
  return ErrorWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kTableUnreadable,
      fmt::format("table {} has no key, and the server is a standby, whose snapshots do not tell "
                  "which transactions run: the table cannot be read beside the stream. Give it a "
                  "primary key, or connect to the primary",
                  table.Text()));
}

// `take` gets every run; false: the reading is to end. A query that takes long is no failure: TCP
// itself watches that the server lives.
absl::Status ReadRows(Connection* sql, const SourceTable& table, const RowShape& shape,
                      const std::function<bool(std::vector<EncodedRun>)>& take,
                      TransactionBuilder* builder) {
  const std::string doing = fmt::format("reading table {}", table.Text());
  absl::StatusOr<std::string> filter = ReadRowFilter(sql, table, absl::Now() + kWholeStepTimeout);
  if (!filter.ok()) return filter.status();
  absl::Status started =
      sql->StartCopy(CopySql(table, shape, *filter), doing, absl::Now() + kWholeStepTimeout);
  if (!started.ok()) return started;
  RowEncoder encoder;
  while (true) {
    std::string_view line;
    absl::StatusOr<Connection::Copy> copy = sql->NextCopy(&line);
    if (!copy.ok()) return copy.status();
    if (*copy == Connection::Copy::kEnd) return absl::OkStatus();
    if (*copy == Connection::Copy::kNothingYet) {
      absl::StatusOr<Connection::Wake> wake = sql->Wait(absl::Now() + kWholeStepTimeout);
      if (!wake.ok()) return wake.status();
      if (*wake == Connection::Wake::kInterrupted) return absl::CancelledError("interrupted");
      continue;
    }
    if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
    if (auto status = encoder.AddCopyLine(shape, line, builder); !status.ok()) return status;
    std::vector<EncodedRun> runs = builder->TakeFullRuns();
    if (!runs.empty() && !take(std::move(runs))) return absl::CancelledError("not wanted any more");
  }
}

}  // namespace

WholeReading::WholeReading(Target target, ChunkOrder order, std::function<void()> wake)
    : handover_(std::make_shared<Handover>(wake)), session_(std::move(target), std::move(wake)) {
  end_ = session_.Run<WholeRows>([order = std::move(order), handover = handover_](Connection* sql) {
    return Read(sql, order, *handover);
  });
}

absl::StatusOr<WholeRows> WholeReading::Read(Connection* sql, const ChunkOrder& order,
                                             Handover& handover) {
  WholeRows rows;
  auto chunk = BeginChunk(sql, order, absl::Now() + kWholeStepTimeout);
  if (chunk.ok() && chunk->waits_for.empty()) {
    const absl::Status read = ReadUnderLock(sql, order, *std::move(chunk), handover, &rows);
    if (read.ok()) return rows;
    chunk = GiveUpChunk(sql, order, read, absl::Now() + kWholeStepTimeout);
  }
  if (!chunk.ok()) return chunk.status();
  rows.waits_for = std::move(chunk->waits_for);
  return rows;
}

absl::Status WholeReading::ReadUnderLock(Connection* sql, const ChunkOrder& order, TableChunk chunk,
                                         Handover& handover, WholeRows* rows) {
  if (absl::Status status = CheckReadable(chunk, order.table); !status.ok()) return status;
  const RowShape shape = chunk.relation.shape;
  handover.Begin(std::move(chunk));
  TransactionBuilder builder;
  builder.Begin();
  RowEncoder().AddTruncate(shape, &builder);
  const auto take = [&](std::vector<EncodedRun> runs) { return handover.Put(std::move(runs)); };
  absl::Status status = ReadRows(sql, order.table, shape, take, &builder);
  if (status.ok() && order.table.partitioned) {
    // As of now: whatever came before its rows were asked for is among them.
    auto parts = ReadHeldParts(sql, order.table.oid, absl::Now() + kWholeStepTimeout);
    if (!parts.ok()) return parts.status();
    rows->parts = *std::move(parts);
  }
  if (status.ok()) {
    status = sql->Query("COMMIT", "ending a snapshot", absl::Now() + kWholeStepTimeout).status();
  }
  if (!status.ok()) return status;
  EncodedTransaction rest = builder.Finish(Position(), v1::CommitRecord());
  if (!take(std::move(rest.runs))) return absl::CancelledError("not wanted any more");
  rows->record = std::move(rest.record);
  return absl::OkStatus();
}

// A thread that waits for room waits for nothing that the session could interrupt.
WholeReading::~WholeReading() { handover_->End(); }

bool WholeReading::HasNews() const { return handover_->HasNews() || IsReady(end_); }

std::optional<TableChunk> WholeReading::TakeBegun() { return handover_->TakeBegun(); }

std::vector<EncodedRun> WholeReading::Take() {
  std::vector<EncodedRun> runs = handover_->Take();
  for (const EncodedRun& run : runs) changes_taken_ += run.changes;
  return runs;
}

std::optional<absl::StatusOr<WholeRows>> WholeReading::TakeEnd() {
  if (!IsReady(end_) || handover_->HasNews()) return std::nullopt;
  return end_.get();
}

}  // namespace tidemark::capture::postgres
