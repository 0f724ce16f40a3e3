#include "server/run_filter.h"

#include <gtest/gtest.h>

#include "proto/reason.h"
#include "server/tail_cut.h"
#include "server/transaction_writer.h"
#include "tests/server/scripted_source.h"

namespace tidemark {
namespace {

using testing::SampleTable;
using testing::SampleTransaction;

const v1::TableSchema& Orders() {
  static const v1::TableSchema table = SampleTable("orders");
  return table;
}
const v1::TableSchema& Items() {
  static const v1::TableSchema table = SampleTable("items");
  return table;
}

absl::StatusOr<v1::TableSchema> SchemaOf(uint64_t id) {
  for (const v1::TableSchema* table : {&Orders(), &Items()}) {
    if (table->schema_id() == id) return *table;
  }
  return absl::NotFoundError("no such schema");
}

RunFilter FilterFor(const std::vector<std::string>& tables, const std::vector<v1::Op>& ops = {}) {
  v1::Filter filter;
  for (const std::string& table : tables) filter.add_tables(table);
  for (const v1::Op op : ops) filter.add_ops(op);
  auto made = RunFilter::Make(filter, SchemaOf);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// orders: insert 0, update 2; items: insert 1, truncate 3.
v1::Run MixedRun() {
  v1::Run run;
  run.add_schema_ids(Orders().schema_id());
  run.add_schema_ids(Items().schema_id());
  const auto add = [&](v1::Op op, uint32_t table) {
    v1::Change* change = run.add_changes();
    change->set_op(op);
    change->set_table(table);
    change->set_ordinal(static_cast<uint32_t>(run.changes_size() - 1));
    if (op != v1::OP_TRUNCATE) change->add_after()->set_text("value " + std::to_string(table));
  };
  add(v1::OP_INSERT, 0);
  add(v1::OP_INSERT, 1);
  add(v1::OP_UPDATE, 0);
  add(v1::OP_TRUNCATE, 1);
  return run;
}

std::string Shown(const CutRun& cut) {
  v1::Run run;
  EXPECT_TRUE(run.ParseFromArray(cut.bytes.data(), static_cast<int>(cut.bytes.size())));
  EXPECT_EQ(static_cast<uint64_t>(run.changes_size()), cut.changes);
  std::string shown;
  for (const v1::Change& change : run.changes()) {
    const auto schema = SchemaOf(run.schema_ids(static_cast<int>(change.table())));
    EXPECT_TRUE(schema.ok());
    shown += std::to_string(run.first_sequence() + change.ordinal()) + v1::Op_Name(change.op()) +
             " " + schema->table_name() + ";";
  }
  return shown;
}

TEST(RunFilterTest, PassesARunOfWantedTablesAsItIs) {
  RunFilter filter = FilterFor({"public.*"});
  const std::string bytes = MixedRun().SerializeAsString();
  auto cut = filter.Cut(bytes, 0);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->bytes.data(), bytes.data());
  EXPECT_EQ(cut->bytes.size(), bytes.size());
  EXPECT_EQ(cut->changes, 4u);
}

TEST(RunFilterTest, CutsTablesAndKeepsSequences) {
  const std::string bytes = MixedRun().SerializeAsString();
  RunFilter orders = FilterFor({"public.orders"});
  EXPECT_EQ(Shown(*orders.Cut(bytes, 0)), "0OP_INSERT orders;2OP_UPDATE orders;");
  RunFilter items = FilterFor({"public.items"});
  const auto cut = items.Cut(bytes, 0);
  EXPECT_EQ(Shown(*cut), "1OP_INSERT items;3OP_TRUNCATE items;");
  // Nothing of a table that was not asked for, not even its schema.
  v1::Run run;
  ASSERT_TRUE(run.ParseFromArray(cut->bytes.data(), static_cast<int>(cut->bytes.size())));
  ASSERT_EQ(run.schema_ids_size(), 1);
  EXPECT_EQ(run.schema_ids(0), Items().schema_id());
}

TEST(RunFilterTest, CutsOps) {
  const std::string bytes = MixedRun().SerializeAsString();
  RunFilter inserts = FilterFor({}, {v1::OP_INSERT});
  EXPECT_FALSE(inserts.passes_everything());
  EXPECT_EQ(Shown(*inserts.Cut(bytes, 0)), "0OP_INSERT orders;1OP_INSERT items;");
  RunFilter deletes = FilterFor({}, {v1::OP_DELETE});
  EXPECT_TRUE(deletes.Cut(bytes, 0)->empty());
}

TEST(RunFilterTest, PiecesFollowTheirChange) {
  v1::Run pieces;
  pieces.add_schema_ids(Orders().schema_id());
  pieces.add_value_parts()->set_data("piece");
  const std::string piece_bytes = pieces.SerializeAsString();
  const std::string bytes = SampleTransaction(1, {1}, Orders()).runs[0].bytes;
  RunFilter orders = FilterFor({"public.orders"});
  ASSERT_FALSE(orders.Cut(bytes, 0)->empty());
  EXPECT_EQ(orders.Cut(piece_bytes, 1)->bytes, piece_bytes);
  RunFilter items = FilterFor({"public.items"});
  ASSERT_TRUE(items.Cut(bytes, 0)->empty());
  EXPECT_TRUE(items.Cut(piece_bytes, 1)->empty());
}

TEST(RunFilterTest, PassesOverCommitsByTheirTables) {
  RunFilter items = FilterFor({"public.items"});
  EXPECT_FALSE(*items.WantsCommit(SampleTransaction(1, {1}, Orders()).record));
  EXPECT_TRUE(*items.WantsCommit(SampleTransaction(1, {1}, Items()).record));
}

TEST(RunFilterTest, DamagedRunsAreErrors) {
  RunFilter orders = FilterFor({"public.orders"});
  std::string bytes = MixedRun().SerializeAsString();
  bytes.resize(bytes.size() - 1);
  EXPECT_EQ(ReasonOf(orders.Cut(bytes, 0).status()), reason::kStoreDamaged);
  v1::Run beyond = MixedRun();
  beyond.mutable_changes(0)->set_table(9);
  EXPECT_EQ(ReasonOf(orders.Cut(beyond.SerializeAsString(), 0).status()), reason::kStoreDamaged);
}

TEST(RunFilterTest, RefusesWhatItCannotDo) {
  v1::Filter filter;
  filter.add_ops(static_cast<v1::Op>(99));
  EXPECT_EQ(ReasonOf(RunFilter::Make(filter, SchemaOf).status()), reason::kRequestInvalid);
  filter.Clear();
  filter.add_tables("no dot");
  EXPECT_EQ(ReasonOf(RunFilter::Make(filter, SchemaOf).status()), reason::kRequestInvalid);
  filter.Clear();
  filter.add_columns();
  EXPECT_EQ(ReasonOf(RunFilter::Make(filter, SchemaOf).status()), reason::kFeatureUnsupported);
  filter.Clear();
  filter.mutable_key_partition();
  EXPECT_EQ(ReasonOf(RunFilter::Make(filter, SchemaOf).status()), reason::kFeatureUnsupported);
}

TEST(TailCutTest, LeavesWhatTheFilterWants) {
  EncodedTransaction transaction = SampleTransaction(5, {1, 2}, Orders());
  transaction.runs.push_back({2, 0, 4, MixedRun().SerializeAsString()});
  transaction.record.set_changes(6);
  transaction.record.set_commit_lsn(77);
  std::string encoded;
  AppendTransaction(&encoded, transaction, "the cursor");

  RunFilter items = FilterFor({"public.items"});
  std::string cut;
  ASSERT_TRUE(*AppendCutTransaction(encoded, items, &cut));
  v1::Batch batch;
  ASSERT_TRUE(batch.ParseFromString(cut));
  ASSERT_EQ(batch.transactions_size(), 1);
  const v1::Transaction& left = batch.transactions(0);
  EXPECT_EQ(left.position(), transaction.position.Text());
  EXPECT_EQ(left.cursor(), "the cursor");
  EXPECT_TRUE(left.last());
  EXPECT_EQ(left.changes_total(), 6u);
  EXPECT_EQ(left.changes_delivered(), 2u);
  EXPECT_EQ(left.commit_lsn(), "0/4D");
  ASSERT_EQ(left.runs_size(), 1);
  EXPECT_EQ(left.runs(0).first_sequence(), 2u);
  EXPECT_EQ(left.runs(0).changes(0).ordinal(), 1u);

  cut.clear();
  RunFilter deletes = FilterFor({}, {v1::OP_DELETE});
  EXPECT_FALSE(*AppendCutTransaction(encoded, deletes, &cut));
  EXPECT_EQ(cut, "");
}

}  // namespace
}  // namespace tidemark
