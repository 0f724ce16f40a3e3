// What is appended is read back whole and in order, and the checkpoint belongs to it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "proto/reason.h"
#include "tests/store/store_fixture.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class AppendReadTest : public StoreFixture {};

// proves R02, R04
TEST_F(AppendReadTest, GivesTransactionsInOrderWithTheirRuns) {
  OpenWithLog();
  Append({Inserts(110, {1}), Inserts(120, {2, 3, 4}, 1)});
  Append({Inserts(130, {5})});

  EXPECT_THAT(
      ReadLog(100),
      ElementsAre(MatchesRegex("\\[110/0\\+0: [0-9]+\\]"), MatchesRegex("\\[120/0\\+0: [0-9]+"),
                  MatchesRegex("120/1\\+0: [0-9]+"), MatchesRegex("120/2\\+0: [0-9]+\\]"),
                  MatchesRegex("\\[130/0\\+0: [0-9]+\\]")));
  EXPECT_THAT(Positions(110), ElementsAre(120, 130));
  EXPECT_THAT(Positions(115), ElementsAre(120, 130));
  EXPECT_THAT(Positions(130), IsEmpty());
}

TEST_F(AppendReadTest, GivesTheBytesAndTheRecordThatWereAppended) {
  OpenWithLog();
  EncodedTransaction transaction = Inserts(110, {1, 2}, 1);
  transaction.record.set_source_transaction_id("4711");
  transaction.record.set_commit_lsn(109);
  Append({transaction});

  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  StoredRun run;
  for (const EncodedRun& expected : transaction.runs) {
    ASSERT_TRUE(*(*reader)->Next(&run));
    EXPECT_EQ(run.bytes, expected.bytes);
    EXPECT_EQ(run.first_sequence, expected.first_sequence);
    EXPECT_EQ(run.record->source_transaction_id(), "4711");
    EXPECT_EQ(run.record->commit_lsn(), 109);
    EXPECT_EQ(run.record->changes(), 2);
    EXPECT_EQ(run.record->bytes(),
              transaction.runs[0].bytes.size() + transaction.runs[1].bytes.size());
  }
}

TEST_F(AppendReadTest, KeepsThePiecesOfAValueBehindTheirChange) {
  OpenWithLog();
  EncodedTransaction transaction = Inserts(110, {1, 2}, 1);
  transaction.runs.insert(transaction.runs.begin() + 1, {0, 1, 0, "piece 1"});
  transaction.runs.insert(transaction.runs.begin() + 2, {0, 2, 0, "piece 2"});
  Append({transaction});
  EXPECT_THAT(ReadLog(100), ElementsAre(MatchesRegex("\\[110/0\\+0: [0-9]+"), "110/0+1: 7",
                                        "110/0+2: 7", MatchesRegex("110/1\\+0: [0-9]+\\]")));
}

TEST_F(AppendReadTest, GivesATransactionWithoutChangesAsOneEmptyRun) {
  OpenWithLog();
  Append({Inserts(110, {})});
  EXPECT_THAT(ReadLog(100), ElementsAre("[110/0+0: 0]"));
}

TEST_F(AppendReadTest, OrdersMadeTransactionsBehindTheSourcesOwn) {
  OpenWithLog();
  EncodedTransaction made = Inserts(110, {2});
  made.position = made.position.WithOrdinal(1);
  Append({Inserts(110, {1}), made, Inserts(111, {3})});
  EXPECT_THAT(Positions(100), ElementsAre(110, 110, 111));
}

TEST_F(AppendReadTest, ReaderAtTheHeadSeesWhatComesLater) {
  OpenWithLog();
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Drain(reader->get()), IsEmpty());
  EXPECT_THAT(Drain(reader->get()), IsEmpty());
  Append({Inserts(110, {1})});
  EXPECT_THAT(Drain(reader->get()), ElementsAre(MatchesRegex("\\[110/0.*")));
  Append({Inserts(120, {1})});
  Append({Inserts(130, {1})});
  EXPECT_THAT(Drain(reader->get()),
              ElementsAre(MatchesRegex("\\[120/0.*"), MatchesRegex("\\[130/0.*")));
}

TEST_F(AppendReadTest, SkipsTheRestOfATransaction) {
  OpenWithLog();
  Append({Inserts(110, {1, 2, 3}, 1), Inserts(120, {4}), Inserts(130, {5})});
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  StoredRun run;
  ASSERT_TRUE(*(*reader)->Next(&run));
  (*reader)->SkipTransaction();
  ASSERT_TRUE(*(*reader)->Next(&run));
  EXPECT_EQ(run.position, At(120));
  EXPECT_TRUE(run.last_of_transaction);
  // Behind the last run of a transaction there is nothing left to skip.
  (*reader)->SkipTransaction();
  ASSERT_TRUE(*(*reader)->Next(&run));
  EXPECT_EQ(run.position, At(130));
}

// proves A10: what a resting reader pins is let go, and it goes on where it stood.
TEST_F(AppendReadTest, GoesOnAfterARestAnywhere) {
  OpenWithLog();
  Append({Inserts(110, {1, 2, 3}, 1), Inserts(120, {4}), Inserts(130, {5, 6}, 1)});
  const std::vector<std::string> expected = ReadLog(100);
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  std::vector<std::string> lines;
  StoredRun run;
  for (;;) {
    (*reader)->Rest();
    const auto more = (*reader)->Next(&run);
    ASSERT_TRUE(more.ok()) << more.status();
    if (!*more) break;
    lines.push_back(fmt::format("{}{}/{}+{}: {}{}", run.first_of_transaction ? "[" : "",
                                run.position.engine_low(), run.first_sequence, run.part,
                                run.bytes.size(), run.last_of_transaction ? "]" : ""));
  }
  EXPECT_EQ(lines, expected);
}

TEST_F(AppendReadTest, SkipsATransactionInWhichItRested) {
  OpenWithLog();
  Append({Inserts(110, {1, 2, 3}, 1), Inserts(120, {4})});
  auto reader = feed_->NewLogReader(At(100));
  ASSERT_TRUE(reader.ok());
  StoredRun run;
  ASSERT_TRUE(*(*reader)->Next(&run));
  (*reader)->Rest();
  (*reader)->SkipTransaction();
  ASSERT_TRUE(*(*reader)->Next(&run));
  EXPECT_EQ(run.position, At(120));
}

TEST_F(AppendReadTest, RefusesAPositionThatDoesNotRise) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  EXPECT_TRUE(absl::IsInvalidArgument(TryAppend({Inserts(110, {2})})));
  EXPECT_TRUE(absl::IsInvalidArgument(TryAppend({Inserts(120, {2}), Inserts(115, {3})})));
  // Nothing of a refused batch is there.
  EXPECT_THAT(Positions(100), ElementsAre(110));
  EXPECT_EQ(feed_->checkpoint().position(), CheckpointAt(110).position());
  EXPECT_EQ(feed_->head(), At(110));
}

TEST_F(AppendReadTest, RefusesASchemaThatWasNeverGiven) {
  OpenWithLog();
  const v1::TableSchema other = SampleSchema("other");
  EncodedTransaction transaction = Inserts(110, {});
  transaction.record.clear_schema_ids();
  transaction.record.add_schema_ids(other.schema_id());
  transaction.runs.push_back({0, 0, 1, RunBytes(other, {Delete(1)})});
  EXPECT_TRUE(absl::IsInvalidArgument(TryAppend({transaction})));
  EXPECT_THAT(Positions(100), IsEmpty());
}

TEST_F(AppendReadTest, RefusesTransactionsBeforeTheSnapshotIsWhole) {
  Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(TryAppend({Inserts(110, {1})})));
  EXPECT_FALSE(feed_->snapshot_whole());
}

TEST_F(AppendReadTest, HeadFollowsAnIdleCheckpoint) {
  OpenWithLog();
  Append({Inserts(110, {1})});
  AppendBatch idle;
  idle.checkpoint = CheckpointAt(500);
  ASSERT_TRUE(feed_->Append(idle).ok());
  EXPECT_EQ(feed_->head(), At(500));
  EXPECT_EQ(feed_->synced(), At(100));
  Sync();
  EXPECT_EQ(feed_->synced(), At(500));
  Fold();
  EXPECT_EQ(feed_->folded(), At(500));
}

TEST_F(AppendReadTest, KeepsEverythingOverACleanRestart) {
  OpenWithLog();
  const std::string identity = feed_->record().identity();
  EXPECT_EQ(identity.size(), 8);
  EXPECT_EQ(feed_->record().generation(), 1);
  Append({Inserts(110, {1}), Inserts(120, {2, 3}, 1)});
  const auto before = ReadLog(100);
  const uint64_t bytes = feed_->log_bytes();
  Open();
  EXPECT_EQ(ReadLog(100), before);
  EXPECT_EQ(feed_->log_bytes(), bytes);
  EXPECT_EQ(feed_->head(), At(120));
  EXPECT_EQ(feed_->synced(), At(120));
  EXPECT_EQ(feed_->floor(), At(100));
  EXPECT_TRUE(feed_->snapshot_whole());
  EXPECT_EQ(feed_->record().identity(), identity);
  EXPECT_EQ(feed_->checkpoint().position(), CheckpointAt(120).position());
  EXPECT_TRUE(absl::IsInvalidArgument(TryAppend({Inserts(120, {2})})));
}

TEST_F(AppendReadTest, FeedsOfOneStoreAreApart) {
  OpenWithLog();
  auto other = store_->OpenFeed("payments", "postgres");
  ASSERT_TRUE(other.ok());
  EXPECT_NE((*other)->record().identity(), feed_->record().identity());
  AppendBatch whole;
  whole.snapshot_whole = At(7);
  whole.schemas = {schema_};
  ASSERT_TRUE((*other)->Append(whole).ok());
  AppendBatch batch;
  batch.transactions = {Inserts(9, {1})};
  ASSERT_TRUE((*other)->Append(batch).ok());
  Append({Inserts(110, {1})});
  EXPECT_THAT(Positions(100), ElementsAre(110));
  auto reader = (*other)->NewLogReader(At(7));
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(Drain(reader->get()), ElementsAre(MatchesRegex("\\[9/0.*")));
  const auto names = store_->FeedNames();
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("orders", "payments"));
}

// proves R34
TEST_F(AppendReadTest, AFeedKeepsItsEngine) {
  OpenWithLog();
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->OpenFeed(kFeedName, "mysql").status()));
}

TEST_F(AppendReadTest, FindsTheRecordAtOrBeforeABoundary) {
  OpenWithLog();
  Append({Inserts(110, {1, 2}, 1), Inserts(120, {3})});
  const auto none = feed_->RecordAtOrBefore(At(109));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  for (const uint64_t boundary : {110, 119}) {
    const auto found = feed_->RecordAtOrBefore(At(boundary));
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->first, At(110));
    EXPECT_EQ((*found)->second.commit_time_us(), 110);
  }
  const auto last = feed_->RecordAtOrBefore(At(9999));
  ASSERT_TRUE(last.ok() && last->has_value());
  EXPECT_EQ((*last)->first, At(120));
}

// proves R07
TEST_F(AppendReadTest, TwoStoresOfTheSameTransactionsAreEqualByteForByte) {
  const auto capture = [this] {
    Append({Inserts(110, {1, 2, 3}, 2)});
    Append({Inserts(120, {4})});
    auto reader = feed_->NewLogReader(At(100));
    std::string all;
    StoredRun run;
    while (*(*reader)->Next(&run)) {
      all += fmt::format("{}/{}/{} {} ", run.position.Text(), run.first_sequence, run.part,
                         run.record->SerializeAsString());
      all += run.bytes;
    }
    return all;
  };
  OpenWithLog();
  const std::string first = capture();
  options_.path = scratch_ / "second";
  OpenWithLog();
  EXPECT_EQ(capture(), first);
}

}  // namespace
}  // namespace tidemark::store
