// What a change leaves out is what stood there before it, wherever that is found, and the stored
// bytes do not depend on where.
#include "server/row_filler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "capture/transaction_builder.h"
#include "capture/value_writer.h"
#include "proto/schema_id.h"
#include "server/limits.h"
#include "tests/server/feed_fixture.h"

namespace tidemark {
namespace {

using capture::TransactionBuilder;
using capture::ValueTag;
using testing::At;
using testing::CheckpointAt;
using ::testing::ElementsAre;
using testing::FeedFixture;
using testing::SampleTable;
using ::testing::SizeIs;

// A table (id, name, doc) whose key is id.
v1::TableSchema Documents(const std::string& doc_type = "text") {
  v1::TableSchema table = SampleTable("documents");
  v1::Column* doc = table.add_columns();
  doc->set_name("doc");
  doc->set_source_type(doc_type);
  doc->set_form(v1::VALUE_FORM_TEXT);
  table.set_schema_id(0);
  table.set_schema_id(SchemaId(table));
  return table;
}

constexpr char kAbsent[] = "-";
constexpr char kNull[] = "null";

void AppendTextOf(ValueTag tag, const std::string& text, std::string* image) {
  if (text == kAbsent) return capture::AppendAbsent(tag, image);
  if (text == kNull) return capture::AppendNull(tag, image);
  capture::AppendText(tag, text, image);
}

std::string Row(ValueTag tag, int64_t id, const std::string& name, const std::string& doc) {
  std::string image;
  capture::AppendInteger(tag, id, &image);
  AppendTextOf(tag, name, &image);
  AppendTextOf(tag, doc, &image);
  return image;
}

std::string Key(int64_t id) {
  std::string key;
  capture::AppendInteger(ValueTag::kKey, id, &key);
  return key;
}

// Builds one transaction as a source does.
class Changes {
 public:
  explicit Changes(v1::TableSchema table = Documents()) : table_(std::move(table)) {
    builder_.Begin();
  }

  Changes& Insert(int64_t id, const std::string& name, const std::string& doc) {
    const std::string row = Row(ValueTag::kAfter, id, name, doc);
    builder_.AddChange(v1::OP_INSERT, table_.schema_id(), {.after = row});
    return *this;
  }
  Changes& Update(int64_t id, const std::string& name, const std::string& doc) {
    const std::string row = Row(ValueTag::kAfter, id, name, doc);
    builder_.AddChange(v1::OP_UPDATE, table_.schema_id(),
                       {.after = row, .has_gaps = wants_before_ || doc == kAbsent});
    return *this;
  }
  Changes& Delete(int64_t id) {
    const std::string key = Key(id);
    builder_.AddChange(v1::OP_DELETE, table_.schema_id(), {.key = key, .has_gaps = wants_before_});
    return *this;
  }
  Changes& ChangeKey(int64_t from, int64_t to, const std::string& name, const std::string& doc) {
    const std::string key = Key(from);
    const std::string row = Row(ValueTag::kAfter, to, name, doc);
    builder_.AddKeyChange(table_.schema_id(), key, "", row, wants_before_ || doc == kAbsent);
    return *this;
  }
  Changes& Truncate() {
    builder_.AddChange(v1::OP_TRUNCATE, table_.schema_id(), {});
    return *this;
  }
  Changes& Skip(uint64_t changes) {
    builder_.SkipChanges(changes);
    return *this;
  }
  Changes& WantBefore() {
    wants_before_ = true;
    return *this;
  }
  EncodedTransaction At(uint64_t position) {
    return builder_.Finish(testing::At(position), v1::CommitRecord());
  }

 private:
  const v1::TableSchema table_;
  TransactionBuilder builder_;
  bool wants_before_ = false;
};

class RowFillerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store().BeginSnapshot().ok());
    store::AppendBatch whole;
    whole.schemas = {Documents()};
    whole.snapshot_whole = At(10);
    whole.checkpoint = CheckpointAt(10);
    ASSERT_TRUE(store().Append(whole).ok());
  }

  store::FeedStore& store() { return fixture_.feed().store(); }

  // One batch, as the ingest loop writes it.
  void Write(std::vector<EncodedTransaction> transactions,
             const std::vector<v1::TableSchema>& schemas = {Documents()}) {
    store::AppendBatch next;
    next.schemas = schemas;
    next.checkpoint = CheckpointAt(transactions.back().position.engine_low());
    for (EncodedTransaction& transaction : transactions) {
      const absl::Status added = filler_.Add(std::move(transaction), &next);
      ASSERT_TRUE(added.ok()) << added;
    }
    Append(next);
  }
  void Append(const store::AppendBatch& next) {
    const absl::Status appended = store().Append(next);
    ASSERT_TRUE(appended.ok()) << appended;
    filler_.Appended();
    ASSERT_TRUE(store().Sync().ok());
  }
  void WriteLarge(EncodedTransaction transaction) {
    store::AppendBatch next;
    next.schemas = {Documents()};
    next.checkpoint = CheckpointAt(transaction.position.engine_low());
    for (EncodedRun& run : transaction.runs) {
      filler_.SawParts(5, {run});
      ASSERT_TRUE(store().SpoolParts(5, next.schemas, {run}).ok());
    }
    const absl::Status added =
        filler_.AddSpooled({5, transaction.position, transaction.record}, &next);
    ASSERT_TRUE(added.ok()) << added;
    Append(next);
  }

  static std::string Text(const v1::Value& value, const std::map<uint32_t, std::string>& pieces,
                          uint32_t column) {
    if (value.has_integer()) return std::to_string(value.integer());
    if (value.has_null()) return kNull;
    if (value.kind_case() == v1::Value::KIND_NOT_SET) return kAbsent;
    v1::Value whole = value;
    if (value.has_in_parts()) {
      EXPECT_TRUE(whole.ParseFromString(pieces.at(column)));
    }
    const std::string& text = whole.text();
    return text.size() < 100 ? text : fmt::format("{}*{}", text[0], text.size());
  }
  template <class Values>
  static std::string Row(const Values& values, const std::map<uint32_t, std::string>& pieces = {}) {
    std::string text;
    for (int i = 0; i < values.size(); ++i) {
      text += (i == 0 ? "" : " ") + Text(values[i], pieces, static_cast<uint32_t>(i));
    }
    return text;
  }

  // "position.sequence op row", with " <- row before" and "*" for a change of the key.
  std::vector<std::string> Log(uint64_t after = 10) {
    std::vector<std::string> lines;
    auto reader = store().NewLogReader(At(after));
    EXPECT_TRUE(reader.ok()) << reader.status();
    store::StoredRun stored;
    v1::Change held;
    std::string where;
    std::map<uint32_t, std::string> pieces;
    const auto flush = [&] {
      if (where.empty()) return;
      const char* op = held.op() == v1::OP_INSERT   ? "insert"
                       : held.op() == v1::OP_UPDATE ? "update"
                       : held.op() == v1::OP_DELETE ? "delete"
                                                    : "truncate";
      std::string line = where + " " + op + (held.key_change() ? "*" : "");
      if (held.key_size() > 0) line += " " + Row(held.key());
      if (held.after_size() > 0) line += " " + Row(held.after(), pieces);
      if (held.before_size() > 0) line += " <- " + Row(held.before());
      lines.push_back(line);
      where.clear();
      pieces.clear();
    };
    for (;;) {
      const auto more = (*reader)->Next(&stored);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) break;
      v1::Run run;
      EXPECT_TRUE(run.ParseFromString(std::string(stored.bytes)));
      EXPECT_LE(stored.bytes.size(), capture::kMessageBytesMax);
      for (const v1::ValuePart& part : run.value_parts()) pieces[part.column()] += part.data();
      for (const v1::Change& change : run.changes()) {
        flush();
        held = change;
        where = fmt::format("{}.{}", stored.position.engine_low(),
                            stored.first_sequence + change.ordinal());
      }
    }
    flush();
    return lines;
  }

  // All bytes of the log's runs, with their keys.
  std::vector<std::string> Bytes() {
    std::vector<std::string> bytes;
    auto reader = store().NewLogReader(At(10));
    store::StoredRun run;
    while (*(*reader)->Next(&run)) {
      bytes.push_back(
          fmt::format("{}.{}.{} ", run.position.engine_low(), run.first_sequence, run.part) +
          std::string(run.bytes));
    }
    return bytes;
  }

  bool wants_before_ = false;
  FeedFixture fixture_;
  bool stopping_ = false;
  RowFiller filler_{fixture_.feed().store(),
                    [this](const v1::TableSchema&) { return wants_before_; },
                    [this] { return stopping_; }};
};

// proves B001, R01
TEST_F(RowFillerTest, AnUnchangedColumnKeepsItsValue) {
  Write({Changes().Insert(1, "a", "doc one").Insert(2, "b", kNull).At(20)});
  Write({Changes().Update(1, "c", kAbsent).Update(2, "d", kAbsent).At(30)});
  ASSERT_TRUE(store().FoldToHead().ok());
  Write({Changes().Update(1, "e", kAbsent).At(40)});
  EXPECT_THAT(Log(20), ElementsAre("30.0 update 1 c doc one", "30.1 update 2 d null",
                                   "40.0 update 1 e doc one"));
}

// proves R01: absent is never NULL, and nothing is made up.
TEST_F(RowFillerTest, WhatNobodyKnowsStaysAbsent) {
  Write({Changes().Update(1, "a", kAbsent).At(20)});
  Write({Changes().Insert(2, "b", "two").Delete(2).Update(2, "c", kAbsent).At(30)});
  Write({Changes().Insert(3, "d", "three").At(40)});
  Write({Changes().Truncate().Update(3, "e", kAbsent).At(50)});
  Write({Changes().Insert(4, "f", "four").Truncate().Update(4, "g", kAbsent).At(60)});
  EXPECT_THAT(Log(), ::testing::IsSupersetOf({"20.0 update 1 a -", "30.2 update 2 c -",
                                              "50.1 update 3 e -", "60.2 update 4 g -"}));
}

// proves B047, R09
TEST_F(RowFillerTest, TheTransactionsOwnEarlierChangesComeFirst) {
  Write({Changes().Insert(1, "a", "old").At(20)});
  Write({Changes()
             .Update(1, "b", kAbsent)
             .Update(1, "c", "new")
             .Update(1, "d", kAbsent)
             .Delete(1)
             .Insert(1, "e", "newer")
             .Update(1, "f", kAbsent)
             .At(30)});
  EXPECT_THAT(Log(20),
              ElementsAre("30.0 update 1 b old", "30.1 update 1 c new", "30.2 update 1 d new",
                          "30.3 delete 1", "30.4 insert 1 e newer", "30.5 update 1 f newer"));
}

TEST_F(RowFillerTest, EarlierTransactionsOfTheBatchComeBeforeTheStore) {
  Write({Changes().Insert(1, "a", "old").At(20)});
  Write({Changes().Update(1, "b", "new").At(30), Changes().Update(1, "c", kAbsent).At(40),
         Changes().Insert(2, "d", "two").At(50), Changes().Delete(1).At(60),
         Changes().Update(2, "e", kAbsent).Update(1, "f", kAbsent).At(70)});
  EXPECT_THAT(Log(30), ElementsAre("40.0 update 1 c new", "50.0 insert 2 d two", "60.0 delete 1",
                                   "70.0 update 2 e two", "70.1 update 1 f -"));
}

// proves B005
TEST_F(RowFillerTest, AChangeOfTheKeyTakesTheRowAlong) {
  Write({Changes().Insert(1, "a", "doc").At(20)});
  Write({Changes()
             .ChangeKey(1, 2, "b", kAbsent)
             .ChangeKey(2, 3, "c", kAbsent)
             .Update(3, "d", kAbsent)
             .At(30)});
  Write({Changes().Insert(3001, "x", "mine").ChangeKey(3001, 3002, "y", kAbsent).At(40)});
  EXPECT_THAT(Log(20),
              ElementsAre("30.0 delete* 1", "30.1 insert* 2 b doc", "30.2 delete* 2",
                          "30.3 insert* 3 c doc", "30.4 update 3 d doc", "40.0 insert 3001 x mine",
                          "40.1 delete* 3001", "40.2 insert* 3002 y mine"));
}

// Two rows swap their keys by way of a third.
TEST_F(RowFillerTest, AKeyThatIsTakenAgainIsTheNewRow) {
  Write({Changes().Insert(1, "a", "one").Insert(2, "b", "two").At(20)});
  Write({Changes()
             .ChangeKey(1, 3, "a", kAbsent)
             .ChangeKey(2, 1, "b", kAbsent)
             .ChangeKey(3, 2, "a", kAbsent)
             .Update(1, "c", kAbsent)
             .Update(2, "d", kAbsent)
             .At(30)});
  EXPECT_THAT(Log(20), ::testing::IsSupersetOf({"30.6 update 1 c two", "30.7 update 2 d one"}));
}

// proves R02, R04: sequences stay what they were, those of changes that are not kept included.
TEST_F(RowFillerTest, SequencesStay) {
  Write({Changes().Insert(1, "a", "doc").At(20)});
  Write({Changes().Skip(3).Update(1, "b", kAbsent).Skip(2).Update(1, "c", kAbsent).Skip(1).At(30)});
  EXPECT_THAT(Log(20), ElementsAre("30.3 update 1 b doc", "30.6 update 1 c doc"));
  const auto record = store().RecordAtOrBefore(At(30));
  ASSERT_TRUE(record.ok() && record->has_value());
  EXPECT_EQ((*record)->second.changes(), 8u);
}

TEST_F(RowFillerTest, ManyUpdatesOfOneKeySpreadOverRuns) {
  Changes changes;
  changes.Insert(1, "first", std::string(200, 'x'));
  for (int i = 1; i < 8000; ++i) changes.Update(1, std::to_string(i), kAbsent);
  Write({changes.At(20)});
  const std::vector<std::string> log = Log();
  ASSERT_THAT(log, SizeIs(8000));
  EXPECT_EQ(log[1], "20.1 update 1 1 x*200");
  EXPECT_EQ(log.back(), "20.7999 update 1 7999 x*200");
}

TEST_F(RowFillerTest, LargeValuesComeInPieces) {
  const std::string large(3'000'000, 'x');
  Write({Changes().Insert(1, "a", large).At(20)});
  Write({Changes().Update(1, "b", kAbsent).Update(1, std::string(2'000'000, 'y'), kAbsent).At(30)});
  EXPECT_THAT(Log(20),
              ElementsAre("30.0 update 1 b x*3000000", "30.1 update 1 y*2000000 x*3000000"));
}

TEST_F(RowFillerTest, WhatGrowsBeyondTheBoundGoesByWayOfTheSpool) {
  constexpr int kRows = 3 * limits::filled_bytes_max / 500'000;
  for (int id = 0; id < kRows; ++id) {
    Write({Changes().Insert(id, "a", std::string(500'000, 'x')).At(20 + id)});
  }
  std::vector<EncodedTransaction> batch;
  Changes one;
  for (int id = 0; id < kRows; ++id) {
    one.Update(id, "b", kAbsent);
    batch.push_back(Changes().Update(id, "c", kAbsent).At(200 + id));
  }
  batch.insert(batch.begin(), one.At(150));
  // Looks at what the spool holds by then.
  batch.push_back(Changes().Update(0, "d", kAbsent).At(500));
  Write(std::move(batch));
  const std::vector<std::string> log = Log(149);
  ASSERT_THAT(log, SizeIs(2 * kRows + 1));
  for (int id = 0; id < kRows; ++id) {
    EXPECT_EQ(log[id], fmt::format("150.{} update {} b x*500000", id, id));
    EXPECT_EQ(log[kRows + id], fmt::format("{}.0 update {} c x*500000", 200 + id, id));
  }
  EXPECT_EQ(log.back(), "500.0 update 0 d x*500000");
}

TEST_F(RowFillerTest, ALargeTransactionIsFilledAtItsCommit) {
  Write({Changes().Insert(1, "a", "stored").At(20)});
  Changes large;
  large.Insert(2, "b", "own").Update(2, "c", kAbsent).Update(1, "d", kAbsent);
  large.Insert(3, "e", std::string(2'000'000, 'x')).Update(3, "f", kAbsent);
  for (int64_t id = 100; id < 5'000; ++id) large.Insert(id, "g", "filler");
  large.ChangeKey(2, 4, "h", kAbsent).Update(4'999, "i", kAbsent).Update(7, "j", kAbsent);
  WriteLarge(large.At(30));
  const std::vector<std::string> log = Log(20);
  ASSERT_THAT(log, SizeIs(5 + 4'900 + 4));
  EXPECT_EQ(log[1], "30.1 update 2 c own");
  EXPECT_EQ(log[2], "30.2 update 1 d stored");
  EXPECT_EQ(log[4], "30.4 update 3 f x*2000000");
  EXPECT_EQ(log[log.size() - 3], "30.4906 insert* 4 h own");
  EXPECT_EQ(log[log.size() - 2], "30.4907 update 4999 i filler");
  EXPECT_EQ(log.back(), "30.4908 update 7 j -");
  // What committed is what was filled; the parts as they came are gone.
  EXPECT_FALSE(store().NewSpoolReader(5).ok());
  Write({Changes().Update(4, "k", kAbsent).At(40)});
  EXPECT_THAT(Log(30), ElementsAre("40.0 update 4 k own"));
}

// Behind a large transaction without gaps, in the same batch.
TEST_F(RowFillerTest, LooksIntoALargeTransactionOfTheBatch) {
  store::AppendBatch next;
  next.schemas = {Documents()};
  next.checkpoint = CheckpointAt(40);
  EncodedTransaction large = Changes().Insert(1, "a", "large").At(30);
  ASSERT_TRUE(store().SpoolParts(5, next.schemas, large.runs).ok());
  ASSERT_TRUE(filler_.Add(Changes().Insert(1, "b", "small").At(20), &next).ok());
  ASSERT_TRUE(filler_.AddSpooled({5, large.position, large.record}, &next).ok());
  ASSERT_TRUE(filler_.Add(Changes().Update(1, "c", kAbsent).At(40), &next).ok());
  Append(next);
  EXPECT_THAT(Log(30), ElementsAre("40.0 update 1 c large"));
}

// proves R07: however the transactions are cut into batches, and whatever is folded meanwhile.
TEST_F(RowFillerTest, TheBytesDoNotDependOnWhereTheRowWasFound) {
  const auto transactions = [] {
    std::vector<EncodedTransaction> all;
    for (int64_t i = 0; i < 30; ++i) {
      Changes changes;
      changes.Insert(i, "a", std::string(100 + i, 'x')).Update(i, "b", kAbsent);
      if (i > 2) changes.Update(i / 2, "c", kAbsent).ChangeKey(i - 1, 1'000 + i, "d", kAbsent);
      if (i > 5) changes.Update(1'000 + i - 2, std::string(30'000, 'y'), kAbsent);
      all.push_back(changes.At(static_cast<uint64_t>(20 + i)));
    }
    return all;
  };
  Write(transactions());
  const std::vector<std::string> one_batch = Bytes();

  for (const bool fold : {false, true}) {
    FeedFixture fixture;
    RowFiller filler(
        fixture.feed().store(), [](const v1::TableSchema&) { return false; }, [] { return false; });
    ASSERT_TRUE(fixture.feed().store().BeginSnapshot().ok());
    store::AppendBatch whole;
    whole.schemas = {Documents()};
    whole.snapshot_whole = At(10);
    whole.checkpoint = CheckpointAt(10);
    ASSERT_TRUE(fixture.feed().store().Append(whole).ok());
    for (EncodedTransaction& transaction : transactions()) {
      store::AppendBatch next;
      next.schemas = {Documents()};
      next.checkpoint = CheckpointAt(transaction.position.engine_low());
      ASSERT_TRUE(filler.Add(std::move(transaction), &next).ok());
      ASSERT_TRUE(fixture.feed().store().Append(next).ok());
      filler.Appended();
      ASSERT_TRUE(fixture.feed().store().Sync().ok());
      if (fold) {
        ASSERT_TRUE(fixture.feed().store().FoldToHead().ok());
      }
    }
    std::vector<std::string> bytes;
    auto reader = fixture.feed().store().NewLogReader(At(10));
    store::StoredRun run;
    while (*(*reader)->Next(&run)) {
      bytes.push_back(
          fmt::format("{}.{}.{} ", run.position.engine_low(), run.first_sequence, run.part) +
          std::string(run.bytes));
    }
    EXPECT_EQ(bytes, one_batch) << (fold ? "folded" : "not folded");
  }
}

TEST_F(RowFillerTest, ATransactionWithoutGapsIsNotTouched) {
  EncodedTransaction transaction = Changes().Insert(1, "a", "doc").Update(1, "b", "new").At(20);
  const char* bytes = transaction.runs[0].bytes.data();
  store::AppendBatch next;
  ASSERT_TRUE(filler_.Add(std::move(transaction), &next).ok());
  ASSERT_THAT(next.transactions, SizeIs(1));
  EXPECT_EQ(next.transactions[0].runs[0].bytes.data(), bytes) << "moved, not written anew";
}

// Columns are found by name; one whose type changed is not known any more.
TEST_F(RowFillerTest, FillsAcrossChangesOfTheSchema) {
  Write({Changes().Insert(1, "a", "doc").At(20)});
  const v1::TableSchema wider = Documents("character varying");
  Write({Changes(wider).Update(1, kAbsent, kAbsent).At(30)}, {Documents(), wider});
  EXPECT_THAT(Log(20), ElementsAre("30.0 update 1 a -"));
}

TEST_F(RowFillerTest, ATableWithoutRowsStaysAsItIs) {
  store().SetRowsPolicy([](const v1::TableSchema&) { return false; });
  Write({Changes().Insert(1, "a", "doc").Update(1, "b", kAbsent).At(20)});
  EXPECT_THAT(Log(), ElementsAre("20.0 insert 1 a doc", "20.1 update 1 b -"));
}

TEST_F(RowFillerTest, BeforeImagesAreFilledForTablesThatAsk) {
  wants_before_ = true;
  Write({Changes().WantBefore().Insert(1, "a", "doc").Insert(2, "x", "two").At(20)});
  Write({Changes()
             .WantBefore()
             .Update(1, "b", kAbsent)
             .Update(1, "c", "new")
             .ChangeKey(1, 3, "d", kAbsent)
             .Delete(2)
             .Delete(9)
             .At(30)});
  EXPECT_THAT(Log(20),
              ElementsAre("30.0 update 1 b doc <- 1 a doc", "30.1 update 1 c new <- 1 b doc",
                          "30.2 delete* 1 <- 1 c new", "30.3 insert* 3 d new",
                          "30.4 delete 2 <- 2 x two", "30.5 delete 9"));
}

TEST_F(RowFillerTest, ALargeTransactionIsGivenUpWhenTheServerStops) {
  EncodedTransaction large = Changes().Update(1, "a", kAbsent).At(30);
  ASSERT_TRUE(store().SpoolParts(5, {Documents()}, large.runs).ok());
  filler_.SawParts(5, large.runs);
  store::AppendBatch next;
  stopping_ = true;
  EXPECT_TRUE(absl::IsCancelled(filler_.AddSpooled({5, large.position, large.record}, &next)));
  EXPECT_THAT(next.spooled, ::testing::IsEmpty());
}

// After an error the batch is captured again, under the same handles.
TEST_F(RowFillerTest, ResetForgetsTheBatch) {
  Write({Changes().Insert(1, "a", "old").At(20)});
  store::AppendBatch next;
  next.schemas = {Documents()};
  ASSERT_TRUE(filler_.Add(Changes().Update(1, "b", "new").At(30), &next).ok());
  ASSERT_TRUE(filler_.Add(Changes().Update(1, "c", kAbsent).At(40), &next).ok());
  ASSERT_TRUE(filler_.Reset().ok());
  Write({Changes().Update(1, "c", kAbsent).At(40)});
  EXPECT_THAT(Log(20), ElementsAre("40.0 update 1 c old"));
}

}  // namespace
}  // namespace tidemark
