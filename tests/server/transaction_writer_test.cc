#include "server/transaction_writer.h"

#include <gtest/gtest.h>

#include "proto/timestamps.h"
#include "tests/server/scripted_source.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark {
namespace {

using testing::At;
using testing::SampleRun;
using testing::SampleTransaction;

// The same transaction built from typed messages.
v1::Transaction Typed(const EncodedTransaction& transaction) {
  v1::Transaction typed;
  typed.set_position(transaction.position.Text());
  *typed.mutable_commit_time() =
      ToTimestamp(absl::FromUnixMicros(transaction.record.commit_time_us()));
  typed.set_source_transaction_id(transaction.record.source_transaction_id());
  typed.set_origin(static_cast<v1::Origin>(transaction.record.origin()));
  for (const EncodedRun& run : transaction.runs) {
    EXPECT_TRUE(typed.add_runs()->ParseFromString(run.bytes));
    typed.mutable_runs()->rbegin()->set_first_sequence(run.first_sequence);
  }
  return typed;
}

EncodedTransaction ManyRuns() {
  EncodedTransaction transaction = SampleTransaction(7, {1, 2});
  transaction.runs.push_back(SampleRun(2, {3}, v1::OP_UPDATE));
  transaction.runs.push_back(SampleRun(uint64_t{1} << 33, {4}, v1::OP_READ));
  transaction.record.set_changes(4);
  transaction.record.set_commit_lsn(0x16B3748);
  return transaction;
}

std::string TypedBatch(const v1::Transaction& transaction) {
  v1::Batch batch;
  *batch.add_transactions() = transaction;
  return batch.SerializeAsString();
}

TEST(TransactionWriterTest, WholeTransactionEqualsTheTypedBuild) {
  const EncodedTransaction transaction = ManyRuns();
  v1::Transaction typed = Typed(transaction);
  typed.set_last(true);
  typed.set_cursor("a cursor");
  typed.set_changes_total(4);
  typed.set_changes_delivered(4);
  typed.set_commit_lsn("0/16B3748");
  std::string written;
  AppendTransaction(&written, transaction, "a cursor");
  EXPECT_EQ(written, TypedBatch(typed));
}

TEST(TransactionWriterTest, PartsEqualTheTypedBuild) {
  const EncodedTransaction transaction = ManyRuns();
  std::string runs;
  size_t counted = 0;
  for (const EncodedRun& run : transaction.runs) {
    AppendRunField(&runs, run.bytes, run.first_sequence);
    counted += RunFieldBytes(run.bytes.size(), run.first_sequence);
  }
  EXPECT_EQ(counted, runs.size());

  v1::Transaction typed = Typed(transaction);
  typed.set_commit_lsn("0/16B3748");
  std::string written;
  AppendTransaction(&written, transaction.position, transaction.record, runs, std::nullopt);
  EXPECT_EQ(written, TypedBatch(typed));

  typed.set_last(true);
  typed.set_changes_total(9);
  typed.set_changes_delivered(4);
  written.clear();
  AppendTransaction(&written, transaction.position, transaction.record, runs,
                    TransactionEnd{.changes_total = 9, .changes_delivered = 4});
  EXPECT_EQ(written, TypedBatch(typed));
}

TEST(TransactionWriterTest, TimesBeforeTheEpochAreTimes) {
  EncodedTransaction transaction = SampleTransaction(1, {1});
  transaction.record.set_commit_time_us(-1);
  std::string written;
  AppendTransaction(&written, transaction, "");
  v1::Batch batch;
  ASSERT_TRUE(batch.ParseFromString(written));
  EXPECT_EQ(batch.transactions(0).commit_time().seconds(), -1);
  EXPECT_EQ(batch.transactions(0).commit_time().nanos(), 999'999'000);
}

TEST(TransactionWriterTest, RecordPrefixMakesAWholeMessage) {
  std::string batch;
  AppendTransaction(&batch, ManyRuns(), "c");
  AppendTransaction(&batch, SampleTransaction(8, {5}), "d");
  v1::SubscribeResponse typed;
  ASSERT_TRUE(typed.mutable_batch()->ParseFromString(batch));
  EXPECT_EQ(RecordPrefix(v1::SubscribeResponse::kBatchFieldNumber, batch.size()) + batch,
            typed.SerializeAsString());
}

TEST(TransactionWriterTest, LsnIsWrittenAsPostgresWritesIt) {
  EXPECT_EQ(LsnText(0x16B3748), "0/16B3748");
  EXPECT_EQ(LsnText(0x1A00000000FF), "1A00/FF");
}

}  // namespace
}  // namespace tidemark
