#include "capture/transaction_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "capture/value_writer.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kOrders = 0x1111111111111111;
constexpr uint64_t kLines = 0x2222222222222222;

Position At(uint64_t lsn) { return Position::Of(1, lsn); }

std::string After(int64_t id, std::string_view text) {
  std::string image;
  AppendInteger(ValueTag::kAfter, id, &image);
  AppendText(ValueTag::kAfter, text, &image);
  return image;
}

std::string Key(int64_t id) {
  std::string image;
  AppendInteger(ValueTag::kKey, id, &image);
  return image;
}

v1::Run Parsed(const EncodedRun& run) {
  v1::Run parsed;
  EXPECT_TRUE(parsed.ParseFromString(run.bytes));
  // Canonical: what is stored is what protobuf would write.
  EXPECT_EQ(parsed.SerializeAsString(), run.bytes);
  EXPECT_EQ(parsed.first_sequence(), 0u);
  EXPECT_EQ(static_cast<uint32_t>(parsed.changes_size()), run.changes);
  return parsed;
}

struct Stamped {
  uint64_t sequence;
  uint64_t schema_id;
  v1::Change change;
};

std::vector<Stamped> Changes(const std::vector<EncodedRun>& runs) {
  std::vector<Stamped> changes;
  for (const EncodedRun& run : runs) {
    const v1::Run parsed = Parsed(run);
    for (const v1::Change& change : parsed.changes()) {
      changes.push_back({run.first_sequence + change.ordinal(),
                         parsed.schema_ids(static_cast<int>(change.table())), change});
    }
  }
  return changes;
}

TEST(TransactionBuilder, OneSmallTransactionIsOneRun) {
  TransactionBuilder builder;
  builder.Begin();
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(1, "a")});
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(2, "b")});
  builder.AddChange(v1::OP_DELETE, kOrders, {.key = Key(1)});
  builder.AddChange(v1::OP_TRUNCATE, kLines, {});
  EXPECT_THAT(builder.TakeFullRuns(), IsEmpty());
  EXPECT_FALSE(builder.PassesBound());
  v1::CommitRecord record;
  record.set_commit_time_us(42);
  record.set_source_transaction_id("771");
  record.set_origin(v1::ORIGIN_SOURCE);
  record.set_commit_lsn(99);
  const EncodedTransaction transaction = builder.Finish(At(100), record);

  EXPECT_EQ(transaction.position, At(100));
  EXPECT_EQ(transaction.record.commit_time_us(), 42);
  EXPECT_EQ(transaction.record.source_transaction_id(), "771");
  EXPECT_EQ(transaction.record.commit_lsn(), 99u);
  EXPECT_EQ(transaction.record.changes(), 4u);
  EXPECT_THAT(transaction.record.schema_ids(), ElementsAre(kOrders, kLines));
  ASSERT_EQ(transaction.runs.size(), 1u);
  EXPECT_EQ(transaction.record.bytes(), transaction.runs[0].bytes.size());
  EXPECT_EQ(transaction.runs[0].part, 0u);
  const v1::Run run = Parsed(transaction.runs[0]);
  EXPECT_THAT(run.schema_ids(), ElementsAre(kOrders, kLines));
  // The header is in front, so that a filter need not parse the changes.
  EXPECT_EQ(transaction.runs[0].bytes.substr(0, 2), std::string("\x0A\x10"));
  EXPECT_EQ(run.changes(0).after(1).text(), "a");
  EXPECT_EQ(run.changes(1).table(), 1u);
  EXPECT_EQ(run.changes(2).op(), v1::OP_DELETE);
  EXPECT_EQ(run.changes(2).key(0).integer(), 1);
  EXPECT_EQ(run.changes(3).op(), v1::OP_TRUNCATE);
  EXPECT_EQ(run.changes(3).ordinal(), 3u);
}

TEST(TransactionBuilder, EmptyTransactionHasNoRun) {
  TransactionBuilder builder;
  builder.Begin();
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  EXPECT_THAT(transaction.runs, IsEmpty());
  EXPECT_EQ(transaction.record.changes(), 0u);
}

// proves R02, R04, R09: 8000 updates of one key have one position, sequences 0 to 7999 without a
// hole, and the last one has the highest.
TEST(TransactionBuilder, StampsEightThousandUpdatesOfOneKey) {
  TransactionBuilder builder;
  builder.Begin();
  for (int i = 0; i < 8000; ++i) {
    builder.AddChange(v1::OP_UPDATE, kOrders, {.after = After(1, std::to_string(i))});
  }
  const EncodedTransaction transaction = builder.Finish(At(7), {});
  EXPECT_EQ(transaction.record.changes(), 8000u);
  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 8000u);
  for (uint64_t i = 0; i < changes.size(); ++i) {
    ASSERT_EQ(changes[i].sequence, i);
    ASSERT_EQ(changes[i].change.after(1).text(), std::to_string(i));
  }
  const auto latest =
      std::max_element(changes.begin(), changes.end(),
                       [](const Stamped& a, const Stamped& b) { return a.sequence < b.sequence; });
  EXPECT_EQ(latest->change.after(1).text(), "7999");
}

// proves R11, R14, R15, R20: for any engine the sequence begins at 0 with each commit, and
// (position, sequence) rises over all of them. proves R13: one change for each position has
// sequence 0.
TEST(TransactionBuilder, SequenceBeginsAgainWithEachCommit) {
  TransactionBuilder builder;
  std::vector<std::pair<Position, uint64_t>> stamps;
  // Sizes of the commits of a source, position by position; the third source has one change each.
  for (const std::vector<int>& sizes : {std::vector<int>{3, 1, 2000, 2}, {1, 1}, {1, 1, 1}}) {
    for (const int size : sizes) {
      builder.Begin();
      for (int i = 0; i < size; ++i) {
        builder.AddChange(v1::OP_UPDATE, kOrders, {.after = After(i, std::string(40, 'v'))});
      }
      const EncodedTransaction transaction = builder.Finish(At(stamps.size() + 1), {});
      for (const Stamped& stamped : Changes(transaction.runs)) {
        stamps.emplace_back(transaction.position, stamped.sequence);
      }
      EXPECT_EQ(stamps.back().second, static_cast<uint64_t>(size - 1));
    }
  }
  EXPECT_TRUE(std::is_sorted(stamps.begin(), stamps.end()));
  EXPECT_EQ(std::adjacent_find(stamps.begin(), stamps.end()), stamps.end());
}

// proves R22: what is not captured counts, so that numbers do not depend on a filter of ours.
TEST(TransactionBuilder, SkippedChangesCount) {
  TransactionBuilder builder;
  builder.Begin();
  builder.SkipChanges(2);
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(1, "a")});
  builder.SkipChanges(1);
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(2, "b")});
  builder.SkipChanges(uint64_t{1} << 33);
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(3, "c")});
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].sequence, 2u);
  EXPECT_EQ(changes[1].sequence, 4u);
  EXPECT_EQ(changes[2].sequence, 5 + (uint64_t{1} << 33));
  EXPECT_EQ(transaction.record.changes(), 6 + (uint64_t{1} << 33));
}

// proves R45, B005: the old key goes and the new one comes, in this order, in one commit.
TEST(TransactionBuilder, KeyChangeIsDeleteThenInsert) {
  TransactionBuilder builder;
  builder.Begin();
  std::string before;
  AppendInteger(ValueTag::kBefore, 1, &before);
  AppendText(ValueTag::kBefore, "old", &before);
  builder.AddKeyChange(kOrders, Key(1), before, After(2, "new"));
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  EXPECT_EQ(transaction.record.changes(), 2u);
  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].change.op(), v1::OP_DELETE);
  EXPECT_EQ(changes[0].change.key(0).integer(), 1);
  EXPECT_EQ(changes[0].change.before(1).text(), "old");
  EXPECT_TRUE(changes[0].change.key_change());
  EXPECT_EQ(changes[1].change.op(), v1::OP_INSERT);
  EXPECT_EQ(changes[1].change.after(0).integer(), 2);
  EXPECT_TRUE(changes[1].change.key_change());
  EXPECT_EQ(changes[1].sequence, changes[0].sequence + 1);
}

void AddMixedChanges(TransactionBuilder* builder, int count, std::vector<EncodedRun>* taken,
                     int take_every) {
  for (int i = 0; i < count; ++i) {
    const uint64_t table = i % 3 == 0 ? kOrders : kLines;
    builder->AddChange(v1::OP_INSERT, table,
                       {.after = After(i, std::string((i * 7919) % 900, 'z'))});
    if (i % 11 == 0) builder->AddKeyChange(table, Key(i), "", After(-i, "moved"));
    if (i % 500 == 499) {
      builder->AddChange(v1::OP_INSERT, kOrders, {.after = After(i, std::string(1'500'000, 'L'))});
    }
    if (take_every != 0 && i % take_every == 0) {
      for (EncodedRun& run : builder->TakeFullRuns()) taken->push_back(std::move(run));
    }
  }
}

// proves R07: the same changes give the same bytes, whenever and in whatever portions the runs are
// taken, and whatever the builder did before.
TEST(TransactionBuilder, RecaptureGivesEqualBytes) {
  std::vector<EncodedRun> expected;
  v1::CommitRecord expected_record;
  for (const int take_every : {0, 1, 13, 1000}) {
    TransactionBuilder builder;
    builder.Begin();
    if (take_every == 13) AddMixedChanges(&builder, 700, nullptr, 0);  // given up in the middle
    builder.Begin();
    std::vector<EncodedRun> runs;
    AddMixedChanges(&builder, 3000, &runs, take_every);
    EncodedTransaction rest = builder.Finish(At(5), {});
    for (EncodedRun& run : rest.runs) runs.push_back(std::move(run));
    if (expected.empty()) {
      expected = std::move(runs);
      expected_record = rest.record;
      continue;
    }
    ASSERT_EQ(runs.size(), expected.size());
    for (size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].first_sequence, expected[i].first_sequence);
      EXPECT_EQ(runs[i].part, expected[i].part);
      EXPECT_EQ(runs[i].changes, expected[i].changes);
      EXPECT_TRUE(runs[i].bytes == expected[i].bytes) << "run " << i;
    }
    EXPECT_EQ(rest.record.SerializeAsString(), expected_record.SerializeAsString());
  }
}

TEST(TransactionBuilder, RunsEndNearTheTarget) {
  TransactionBuilder builder;
  builder.Begin();
  std::vector<EncodedRun> runs;
  for (int i = 0; i < 20'000; ++i) {
    builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(i, std::string(140, 'r'))});
    for (EncodedRun& run : builder.TakeFullRuns()) runs.push_back(std::move(run));
    // A handful of runs at most is held once they are taken.
    ASSERT_LE(
        builder.bytes() -
            [&] {
              size_t taken = 0;
              for (const EncodedRun& run : runs) taken += run.bytes.size();
              return taken;
            }(),
        2 * kRunTargetBytes);
  }
  EXPECT_TRUE(builder.PassesBound());
  const size_t full = runs.size();
  EncodedTransaction rest = builder.Finish(At(1), {});
  EXPECT_EQ(rest.runs.size(), 1u);
  for (size_t i = 0; i < full; ++i) {
    EXPECT_GT(runs[i].bytes.size(), kRunTargetBytes / 2);
    EXPECT_LE(runs[i].bytes.size(), kRunTargetBytes + kRunTargetBytes / 4);
  }
  size_t total = rest.runs[0].bytes.size();
  for (const EncodedRun& run : runs) total += run.bytes.size();
  EXPECT_EQ(rest.record.bytes(), total);
  EXPECT_EQ(rest.record.changes(), 20'000u);
}

TEST(TransactionBuilder, ManyTablesInOneCommit) {
  TransactionBuilder builder;
  builder.Begin();
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t table = 1; table <= 5000; ++table) {
      builder.AddChange(v1::OP_TRUNCATE, table, {});
      builder.AddChange(v1::OP_INSERT, table, {.after = After(1, std::string(30, 'q'))});
    }
  }
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  EXPECT_EQ(transaction.record.schema_ids_size(), 5000);
  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 20'000u);
  for (size_t i = 0; i < changes.size(); ++i) ASSERT_EQ(changes[i].schema_id, i / 2 % 5000 + 1);
  EXPECT_GT(transaction.runs.size(), 1u);
}

TEST(TransactionBuilder, PassesTheBoundByBytes) {
  TransactionBuilder builder;
  builder.Begin();
  const std::string row = After(1, std::string(100'000, 'b'));
  size_t rows = 0;
  while (!builder.PassesBound()) {
    builder.AddChange(v1::OP_INSERT, kOrders, {.after = row});
    ++rows;
  }
  EXPECT_EQ(rows, kTransactionBytesMax / row.size() + 1);
  (void)builder.TakeFullRuns();
  EXPECT_TRUE(builder.PassesBound()) << "once large, always large";
  (void)builder.Finish(At(1), {});
  builder.Begin();
  EXPECT_FALSE(builder.PassesBound());
}

// Puts the values back together from the parts, as a client does.
std::map<std::tuple<uint64_t, v1::Image, uint32_t>, v1::Value> Joined(
    const std::vector<EncodedRun>& runs) {
  std::map<std::tuple<uint64_t, v1::Image, uint32_t>, std::string> bytes;
  std::map<std::tuple<uint64_t, v1::Image, uint32_t>, v1::Value> values;
  uint32_t expected_part = 1;
  uint64_t owner = UINT64_MAX;
  for (const EncodedRun& run : runs) {
    EXPECT_LE(run.bytes.size(), kPartBytesMax + kFramingBytesMax);
    if (run.part == 0) {
      owner = run.first_sequence;
      expected_part = 1;
      continue;
    }
    EXPECT_EQ(run.first_sequence, owner);
    EXPECT_EQ(run.part, expected_part++);
    EXPECT_EQ(run.changes, 0u);
    const v1::Run parsed = Parsed(run);
    EXPECT_EQ(parsed.schema_ids_size(), 1);
    EXPECT_EQ(parsed.value_parts_size(), 1);
    const v1::ValuePart& part = parsed.value_parts(0);
    EXPECT_EQ(part.ordinal(), 0u);
    const std::tuple key(run.first_sequence, part.image(), part.column());
    EXPECT_EQ(part.offset_bytes(), bytes[key].size());
    bytes[key] += part.data();
    if (part.last()) {
      EXPECT_TRUE(values[key].ParseFromString(bytes[key]));
    }
  }
  // Each value was completed.
  EXPECT_EQ(values.size(), bytes.size());
  return values;
}

TEST(TransactionBuilder, LargeValuesComeInParts) {
  TransactionBuilder builder;
  builder.Begin();
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(1, "small")});
  const std::string large(5'000'000, 'L');
  std::string after = After(2, large);
  AppendText(ValueTag::kAfter, "tail", &after);
  builder.AddChange(v1::OP_UPDATE, kOrders, {.after = after});
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(3, "small")});
  EXPECT_TRUE(builder.PassesBound());
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  EXPECT_EQ(transaction.record.changes(), 3u);

  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[1].sequence, 1u);
  EXPECT_EQ(changes[1].change.after(0).integer(), 2);
  ASSERT_TRUE(changes[1].change.after(1).has_in_parts());
  EXPECT_EQ(changes[1].change.after(2).text(), "tail");
  EXPECT_EQ(changes[2].sequence, 2u);

  const auto values = Joined(transaction.runs);
  ASSERT_EQ(values.size(), 1u);
  const v1::Value& value = values.at({1, v1::IMAGE_AFTER, 1});
  EXPECT_EQ(value.text(), large);
  EXPECT_EQ(value.ByteSizeLong(), changes[1].change.after(1).in_parts().size_bytes());
  // The change is alone in its run.
  EXPECT_EQ(transaction.runs[1].changes, 1u);
  EXPECT_EQ(transaction.runs[1].first_sequence, 1u);
}

TEST(TransactionBuilder, AllImagesMayComeInParts) {
  TransactionBuilder builder;
  builder.Begin();
  const std::string text(kValueBytesMax + 1, 'p');
  std::string before;
  std::string key;
  AppendText(ValueTag::kBefore, text + "before", &before);
  AppendText(ValueTag::kKey, text + "key", &key);
  builder.AddKeyChange(kOrders, key, before, After(5, text + "after"));
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  const auto values = Joined(transaction.runs);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values.at({0, v1::IMAGE_BEFORE, 0}).text(), text + "before");
  EXPECT_EQ(values.at({0, v1::IMAGE_KEY, 0}).text(), text + "key");
  EXPECT_EQ(values.at({1, v1::IMAGE_AFTER, 1}).text(), text + "after");
}

// Each value is below its bound, and the row is not.
TEST(TransactionBuilder, WideRowSendsItsLargestValuesInParts) {
  TransactionBuilder builder;
  builder.Begin();
  std::string after;
  std::vector<std::string> columns;
  for (const size_t size : {300'000, 10, 900'000, 300'000, 700'000, 0}) {
    columns.emplace_back(size, static_cast<char>('a' + columns.size()));
    AppendText(ValueTag::kAfter, columns.back(), &after);
  }
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = after});
  const EncodedTransaction transaction = builder.Finish(At(1), {});
  const std::vector<Stamped> changes = Changes(transaction.runs);
  ASSERT_EQ(changes.size(), 1u);
  const auto values = Joined(transaction.runs);
  // 900,000 and 700,000 go; 600,010 stay.
  ASSERT_EQ(values.size(), 2u);
  for (int column = 0; column < 6; ++column) {
    const bool in_parts = column == 2 || column == 4;
    const v1::Value& value = in_parts ? values.at({0, v1::IMAGE_AFTER, uint32_t(column)})
                                      : changes[0].change.after(column);
    EXPECT_EQ(value.text(), columns[column]) << column;
  }
}

TEST(TransactionBuilder, NoMessagePassesTheBoundWhateverTheRow) {
  for (const int columns : {1, 2, 3, 50, 1600}) {
    for (const size_t size : {100, 5'000, 66'000, 1'048'560, 1'048'576, 1'100'000}) {
      if (columns * size > 20'000'000) continue;
      TransactionBuilder builder;
      builder.Begin();
      std::string after;
      for (int i = 0; i < columns; ++i) {
        AppendBinary(ValueTag::kAfter, std::string(size, 'x'), &after);
      }
      builder.AddChange(v1::OP_INSERT, kOrders, {.after = after});
      const EncodedTransaction transaction = builder.Finish(At(1), {});
      for (const EncodedRun& run : transaction.runs) {
        ASSERT_LE(run.bytes.size(), kChangeBytesMax + kFramingBytesMax);
      }
      const auto values = Joined(transaction.runs);
      const std::vector<Stamped> changes = Changes(transaction.runs);
      ASSERT_EQ(changes.size(), 1u);
      for (int i = 0; i < columns; ++i) {
        const v1::Value& value = changes[0].change.after(i);
        const v1::Value& whole =
            value.has_in_parts() ? values.at({0, v1::IMAGE_AFTER, uint32_t(i)}) : value;
        ASSERT_EQ(whole.binary().size(), size);
      }
    }
  }
}

TEST(TransactionBuilderTest, ACutBeginsARunAndCountsOn) {
  TransactionBuilder builder;
  builder.Begin();
  builder.CutRun();
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(1, "a")});
  builder.CutRun();
  builder.CutRun();
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(2, "b")});
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(3, "c")});
  const EncodedTransaction cut = builder.Finish(At(1), {});
  ASSERT_EQ(cut.runs.size(), 2u);
  EXPECT_EQ(cut.runs[0].first_sequence, 0u);
  EXPECT_EQ(cut.runs[0].changes, 1u);
  EXPECT_EQ(cut.runs[1].first_sequence, 1u);
  EXPECT_EQ(cut.runs[1].changes, 2u);
}

// proves R07: a capture from here on knows nothing of what came before the transaction.
TEST(TransactionBuilderTest, ASchemaOfBeforeTheTransactionCutsNoRun) {
  TransactionBuilder builder;
  builder.Begin();
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(1, "a")});
  builder.CutRunOf(kOrders);
  builder.AddChange(v1::OP_INSERT, kLines, {.after = After(2, "b")});
  builder.CutRunOf(kLines);
  builder.CutRunOf(kLines);
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(3, "c")});
  builder.CutRunOf(kLines);
  builder.AddChange(v1::OP_INSERT, kOrders, {.after = After(4, "d")});
  const EncodedTransaction cut = builder.Finish(At(1), {});
  ASSERT_EQ(cut.runs.size(), 2u);
  EXPECT_EQ(cut.runs[0].changes, 2u);
  EXPECT_EQ(cut.runs[1].changes, 2u);
}

}  // namespace
}  // namespace tidemark::capture
