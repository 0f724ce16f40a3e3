#include "server/transaction_writer.h"

#include <fmt/format.h>

#include "proto/timestamps.h"
#include "server/wire_writer.h"
#include "tidemark/v1/change.pb.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

// Every tag written here fits into one byte.
static_assert(v1::Transaction::kCommitLsnFieldNumber < 16);
constexpr size_t kTagBytes = 1;

// proto3: a member with its default value is not written.
void AppendNumber(std::string* out, int field, uint64_t value) {
  if (value == 0) return;
  AppendVarintField(out, field, value);
}

void AppendText(std::string* out, int field, std::string_view text) {
  if (text.empty()) return;
  AppendLengthField(out, field, text);
}

void AppendTimestamp(std::string* out, int field, int64_t us) {
  const google::protobuf::Timestamp time = ToTimestamp(absl::FromUnixMicros(us));
  std::string timestamp;
  AppendNumber(&timestamp, 1, static_cast<uint64_t>(time.seconds()));
  AppendNumber(&timestamp, 2, static_cast<uint64_t>(time.nanos()));
  AppendLengthField(out, field, timestamp);
}

// The fields before the runs; the same on every part.
std::string HeadFields(const Position& position, const v1::CommitRecord& record) {
  std::string out;
  AppendText(&out, v1::Transaction::kPositionFieldNumber, position.Text());
  AppendTimestamp(&out, v1::Transaction::kCommitTimeFieldNumber, record.commit_time_us());
  AppendText(&out, v1::Transaction::kSourceTransactionIdFieldNumber,
             record.source_transaction_id());
  AppendNumber(&out, v1::Transaction::kOriginFieldNumber, record.origin());
  return out;
}

// The fields behind the runs.
std::string TailFields(const v1::CommitRecord& record, const std::optional<TransactionEnd>& end) {
  std::string out;
  if (end) {
    AppendNumber(&out, v1::Transaction::kLastFieldNumber, 1);
    AppendText(&out, v1::Transaction::kCursorFieldNumber, end->cursor);
    AppendNumber(&out, v1::Transaction::kChangesTotalFieldNumber, end->changes_total);
    AppendNumber(&out, v1::Transaction::kChangesDeliveredFieldNumber, end->changes_delivered);
  }
  if (record.commit_lsn() != 0) {
    AppendText(&out, v1::Transaction::kCommitLsnFieldNumber, LsnText(record.commit_lsn()));
  }
  return out;
}

}  // namespace

size_t RunFieldBytes(size_t stored_bytes, uint64_t first_sequence) {
  const size_t sequence_bytes = first_sequence == 0 ? 0 : kTagBytes + VarintBytes(first_sequence);
  const size_t run_bytes = stored_bytes + sequence_bytes;
  return kTagBytes + VarintBytes(run_bytes) + run_bytes;
}

void AppendRunField(std::string* out, std::string_view stored, uint64_t first_sequence) {
  const size_t sequence_bytes = first_sequence == 0 ? 0 : kTagBytes + VarintBytes(first_sequence);
  AppendLengthHead(out, v1::Transaction::kRunsFieldNumber, stored.size() + sequence_bytes);
  out->append(stored);
  AppendNumber(out, v1::Run::kFirstSequenceFieldNumber, first_sequence);
}

void AppendTransaction(std::string* out, const Position& position, const v1::CommitRecord& record,
                       std::string_view runs, const std::optional<TransactionEnd>& end) {
  const std::string head = HeadFields(position, record);
  const std::string tail = TailFields(record, end);
  AppendLengthHead(out, v1::Batch::kTransactionsFieldNumber,
                   head.size() + runs.size() + tail.size());
  out->append(head).append(runs).append(tail);
}

void AppendTransaction(std::string* out, const EncodedTransaction& transaction,
                       std::string_view cursor) {
  const v1::CommitRecord& record = transaction.record;
  const std::string head = HeadFields(transaction.position, record);
  const std::string tail =
      TailFields(record, TransactionEnd{.cursor = cursor,
                                        .changes_total = record.changes(),
                                        .changes_delivered = record.changes()});
  size_t runs_bytes = 0;
  for (const EncodedRun& run : transaction.runs) {
    runs_bytes += RunFieldBytes(run.bytes.size(), run.first_sequence);
  }
  AppendLengthHead(out, v1::Batch::kTransactionsFieldNumber,
                   head.size() + runs_bytes + tail.size());
  out->append(head);
  for (const EncodedRun& run : transaction.runs) {
    AppendRunField(out, run.bytes, run.first_sequence);
  }
  out->append(tail);
}

std::string RecordPrefix(int field, size_t bytes) {
  std::string prefix;
  AppendLengthHead(&prefix, field, bytes);
  return prefix;
}

std::string LsnText(uint64_t lsn) { return fmt::format("{:X}/{:X}", lsn >> 32, lsn & 0xFFFFFFFF); }

}  // namespace tidemark
