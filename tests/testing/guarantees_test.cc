// Every checker is fed a violation: a check that cannot fail proves nothing.
#include "tests/testing/guarantees.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/written_records.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;

::testing::AssertionResult Fails(const absl::Status& status, const std::string& name,
                                 const std::string& found) {
  const std::string text(status.message());
  if (!status.ok() && text.rfind(name, 0) == 0 && text.find(found) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got: " << status.ToString();
}

class GuaranteesTest : public ::testing::Test {
 protected:
  GuaranteesTest() { stream_.DoNotCheck(); }

  void Connect(v1::SubscribeRequest request = {}) {
    stream_.Connected(request);
    stream_.Record(OpenedRecord("start"));
    stream_.Record(SchemaRecord());
  }
  void Send(const v1::Transaction& transaction) { stream_.Record(BatchRecord({transaction})); }

  RecordedStream stream_{"violation"};
};

TEST_F(GuaranteesTest, RightStreamPassesEveryCheck) {
  Connect();
  Send(InsertTransaction(10, 1));
  Send(TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 2, "Bob")}));
  stream_.Disconnected("broken");
  Connect();
  Send(TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 2, "Bob")}));
  Send(LastPart(20, {AccountChange(v1::OP_DELETE, 1, 1)}, 2));
  stream_.Record(ProgressRecord("cursor-25"));
  EXPECT_TRUE(CheckOrdered(stream_).ok()) << CheckOrdered(stream_);
  EXPECT_TRUE(CheckWhole(stream_).ok()) << CheckWhole(stream_);
  EXPECT_TRUE(CheckOnce(stream_).ok()) << CheckOnce(stream_);
  EXPECT_TRUE(CheckProgressing(stream_).ok()) << CheckProgressing(stream_);
  const std::vector<OracleTransaction> oracle = {
      {10, "1", {{"insert", "public.account", {{"id", "1"}, {"owner", "Ann"}}}}},
      {20,
       "2",
       {{"insert", "public.account", {{"id", "2"}, {"owner", "Bob"}}},
        {"delete", "public.account", {{"id", "1"}}}}}};
  for (const auto completeness :
       {v1::COMPLETENESS_CLASS_LOG_EXACT, v1::COMPLETENESS_CLASS_CHANGELOG,
        v1::COMPLETENESS_CLASS_WINDOW_BOUNDED}) {
    const absl::Status complete = CheckComplete(stream_, oracle, completeness);
    EXPECT_TRUE(complete.ok()) << complete;
  }
  EXPECT_TRUE(stream_.resume_cursor() == "cursor-25") << stream_.resume_cursor();
  EXPECT_EQ(stream_.finished_transactions(), 2u);
}

// Each check reads on where the one before it stopped.
TEST_F(GuaranteesTest, WhatComesBehindACheckIsCheckedAsWell) {
  Connect();
  Send(InsertTransaction(20, 1));
  EXPECT_TRUE(CheckOrdered(stream_).ok());
  Send(InsertTransaction(10, 2));
  EXPECT_TRUE(Fails(CheckOrdered(stream_), "Ordered", PositionText(10)));
  EXPECT_EQ(SeenTransactions(stream_)->size(), 2u);
  v1::SubscribeResponse unknown = BatchRecord({InsertTransaction(30, 3)});
  unknown.mutable_batch()->mutable_transactions(0)->mutable_runs(0)->set_schema_ids(0, 999);
  stream_.Record(unknown);
  const absl::Status broken = CheckWhole(stream_);
  EXPECT_TRUE(Fails(broken, "Whole", "schema"));
  EXPECT_EQ(CheckWhole(stream_), broken) << "asked again";
}

TEST_F(GuaranteesTest, OrderedFailsOnPositionThatDoesNotRise) {
  Connect();
  Send(InsertTransaction(20, 1));
  Send(InsertTransaction(20, 2));
  EXPECT_TRUE(Fails(CheckOrdered(stream_), "Ordered", PositionText(20)));
}

TEST_F(GuaranteesTest, OrderedFailsOnSequenceThatDoesNotRise) {
  Connect();
  Send(LastPart(
      20, {AccountChange(v1::OP_INSERT, 1, 1, "Ann"), AccountChange(v1::OP_INSERT, 1, 2, "Bob")},
      2));
  EXPECT_TRUE(Fails(CheckOrdered(stream_), "Ordered", "/1 insert"));
}

TEST_F(GuaranteesTest, OrderedFailsOnTextThatIsNoPosition) {
  Connect();
  v1::Transaction transaction = InsertTransaction(20, 1);
  transaction.set_position("0/20");
  Send(transaction);
  EXPECT_TRUE(Fails(CheckOrdered(stream_), "Ordered", "0/20"));
}

TEST_F(GuaranteesTest, WholeFailsOnMissingChange) {
  Connect();
  Send(LastPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")}, 2));
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "1 of 2 delivered"));
}

TEST_F(GuaranteesTest, WholeFailsOnUnfilteredStreamThatLeavesOut) {
  Connect();
  v1::Transaction transaction = InsertTransaction(20, 1);
  transaction.set_changes_total(2);
  Send(transaction);
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "of 2 changes"));
}

TEST_F(GuaranteesTest, WholeTakesTheFilterIntoAccount) {
  v1::SubscribeRequest request;
  request.mutable_filter()->add_tables("public.account");
  Connect(request);
  v1::Transaction transaction = InsertTransaction(20, 1);
  transaction.set_changes_total(2);
  Send(transaction);
  EXPECT_TRUE(CheckWhole(stream_).ok()) << CheckWhole(stream_);
}

TEST_F(GuaranteesTest, WholeFailsOnInterleavedTransactions) {
  Connect();
  Send(TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")}));
  Send(InsertTransaction(30, 2));
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "stands between the parts"));
}

TEST_F(GuaranteesTest, WholeFailsOnCursorInsideTransaction) {
  Connect();
  v1::Transaction part = TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")});
  part.set_cursor("cursor");
  Send(part);
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "not the last has a cursor"));
}

TEST_F(GuaranteesTest, WholeFailsOnFinishWithoutCursor) {
  Connect();
  v1::Transaction transaction = InsertTransaction(20, 1);
  transaction.clear_cursor();
  Send(transaction);
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "cursor ''"));
}

TEST_F(GuaranteesTest, WholeFailsOnValueThatIsCut) {
  Connect();
  ChangeInParts in_parts = AccountInParts(0, 1, "a long name", 4);
  in_parts.parts.pop_back();
  v1::Transaction transaction = LastPart(20, {in_parts.change}, 1);
  for (const auto& part : in_parts.parts) *transaction.mutable_runs(0)->add_value_parts() = part;
  Send(transaction);
  EXPECT_TRUE(Fails(CheckWhole(stream_), "Whole", "before the last part of a value"));
}

TEST_F(GuaranteesTest, SchemasFailsOnAChangeOfWhichNothingWasSaid) {
  const auto altered = [](uint64_t position, int64_t id) {
    v1::Transaction transaction = InsertTransaction(position, id);
    transaction.mutable_runs(0)->set_schema_ids(
        0, AlteredRecord(0).schema_change().after().schema_id());
    return transaction;
  };
  for (const uint64_t said_at : {0, 20, 30, 40}) {
    RecordedStream stream("schemas");
    stream.DoNotCheck();
    stream.Connected({});
    stream.Record(OpenedRecord("start"));
    stream.Record(SchemaRecord());
    v1::SubscribeResponse schema;
    *schema.mutable_table_schema() = AlteredRecord(0).schema_change().after();
    stream.Record(schema);
    stream.Record(BatchRecord({InsertTransaction(20, 1)}));
    if (said_at != 0) stream.Record(AlteredRecord(said_at));
    stream.Record(BatchRecord({altered(30, 2)}));
    const absl::Status checked = CheckSchemas(stream);
    if (said_at == 0) {
      EXPECT_TRUE(Fails(checked, "Schemas", "of which nothing was said"));
    } else if (said_at == 30) {
      EXPECT_TRUE(checked.ok()) << checked;
    } else if (said_at == 40) {
      EXPECT_TRUE(Fails(checked, "Schemas", "is changed before"));
    }
    stream.Record(BatchRecord({InsertTransaction(50, 3)}));
    EXPECT_TRUE(Fails(CheckSchemas(stream), "Schemas", ""));
  }
}

TEST_F(GuaranteesTest, LoudFailsOnAGenerationThatNothingAnnounced) {
  v1::Transaction behind = InsertTransaction(5, 2);
  behind.set_position(Position::Of(2, uint64_t{5}).Text());
  v1::SubscribeResponse gap;
  gap.mutable_gap()->set_reason("SLOT_LOST");
  Connect();
  Send(InsertTransaction(10, 1));
  stream_.Record(gap);
  Send(behind);
  EXPECT_TRUE(CheckGaps(stream_).ok()) << CheckGaps(stream_);
  stream_.Disconnected("broken");
  Connect();
  Send(InsertTransaction(20, 1));
  Send(behind);
  EXPECT_TRUE(Fails(CheckGaps(stream_), "Loud", "with 0 gaps between"));
  // Nothing is missing where a feed is moved to the log; but that is once.
  stream_.MovesToTheLog();
  EXPECT_TRUE(CheckGaps(stream_).ok()) << CheckGaps(stream_);
  behind.set_position(Position::Of(3, uint64_t{5}).Text());
  Send(behind);
  EXPECT_TRUE(Fails(CheckGaps(stream_), "Loud", "with 0 gaps between"));
}

TEST_F(GuaranteesTest, OnceFailsOnTransactionThatComesAgain) {
  Connect();
  Send(InsertTransaction(10, 1));
  Send(InsertTransaction(20, 2));
  stream_.Disconnected("broken");
  Connect();
  Send(InsertTransaction(20, 2));
  EXPECT_TRUE(Fails(CheckOnce(stream_), "Once", "came again behind"));
  EXPECT_TRUE(CheckOrdered(stream_).ok());
}

TEST_F(GuaranteesTest, OnceFailsOnRepetitionThatDiffers) {
  Connect();
  Send(TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")}));
  stream_.Disconnected("broken");
  Connect();
  Send(InsertTransaction(20, 1, "Eve"));
  EXPECT_TRUE(Fails(CheckOnce(stream_), "Once", "came again as"));
}

TEST_F(GuaranteesTest, OnceFailsWhenAnotherTransactionComesInstead) {
  Connect();
  Send(TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")}));
  stream_.Disconnected("broken");
  Connect();
  Send(InsertTransaction(30, 1));
  EXPECT_TRUE(Fails(CheckOnce(stream_), "Once", "in its place"));
}

TEST_F(GuaranteesTest, CompleteFailsOnLostInventedAndAlteredChanges) {
  Connect();
  Send(InsertTransaction(10, 1));
  const OracleTransaction first = {
      10, "1", {{"insert", "public.account", {{"id", "1"}, {"owner", "Ann"}}}}};
  const OracleTransaction second = {
      20, "2", {{"update", "public.account", {{"id", "1"}, {"owner", "Bob"}}}}};
  OracleTransaction altered = first;
  altered.changes[0].columns["owner"] = "Eve";
  OracleTransaction moved = first;
  moved.end_lsn = 11;
  OracleTransaction longer = first;
  longer.changes.push_back(second.changes[0]);
  EXPECT_TRUE(Fails(CheckComplete(stream_, {first, second}), "Complete", "is missing"));
  EXPECT_TRUE(Fails(CheckComplete(stream_, {}), "Complete", "is not the source's"));
  EXPECT_TRUE(Fails(CheckComplete(stream_, {altered}), "Complete", "Eve"));
  EXPECT_TRUE(Fails(CheckComplete(stream_, {moved}), "Complete", "the source's (xid 1) at B"));
  EXPECT_TRUE(Fails(CheckComplete(stream_, {longer}), "Complete", "change 1 is 'missing'"));
  for (const auto completeness :
       {v1::COMPLETENESS_CLASS_CHANGELOG, v1::COMPLETENESS_CLASS_WINDOW_BOUNDED}) {
    EXPECT_TRUE(Fails(CheckComplete(stream_, {first, second}, completeness), "Complete", "Bob"));
    EXPECT_TRUE(Fails(CheckComplete(stream_, {}, completeness), "Complete", "never written"));
  }
}

TEST_F(GuaranteesTest, CompleteByClassForgivesOnlyWhatTheClassLeavesOpen) {
  Connect();
  Send(InsertTransaction(10, 1));
  Send(InsertTransaction(20, 2, "Bob"));
  const OracleTransaction ann = {
      10, "1", {{"insert", "public.account", {{"id", "1"}, {"owner", "Ann"}}}}};
  const OracleTransaction bob = {
      20, "2", {{"insert", "public.account", {{"id", "2"}, {"owner", "Bob"}}}}};
  OracleTransaction eve_then_ann = ann;
  eve_then_ann.changes.insert(eve_then_ann.changes.begin(),
                              {"insert", "public.account", {{"id", "1"}, {"owner", "Eve"}}});
  EXPECT_FALSE(CheckComplete(stream_, {bob, ann}).ok());
  EXPECT_TRUE(CheckComplete(stream_, {bob, ann}, v1::COMPLETENESS_CLASS_CHANGELOG).ok());
  EXPECT_FALSE(CheckComplete(stream_, {eve_then_ann, bob}, v1::COMPLETENESS_CLASS_CHANGELOG).ok());
  EXPECT_TRUE(
      CheckComplete(stream_, {eve_then_ann, bob}, v1::COMPLETENESS_CLASS_WINDOW_BOUNDED).ok());
}

TEST_F(GuaranteesTest, ResumableFailsOnSkipRepeatAndMuteErrors) {
  Connect();
  for (uint64_t lsn : {10, 20, 30}) Send(InsertTransaction(lsn, static_cast<int64_t>(lsn)));
  const auto behind = [](const std::string& cursor) -> absl::StatusOr<std::string> {
    if (cursor == CursorText(10)) return PositionText(20);
    if (cursor == CursorText(20)) return PositionText(30);
    return "";
  };
  EXPECT_TRUE(CheckResumable(stream_, behind).ok());
  const auto always = [](const absl::StatusOr<std::string>& answer) {
    return [answer](const std::string&) { return answer; };
  };
  EXPECT_TRUE(Fails(CheckResumable(stream_, always(PositionText(10))), "Resumable", "resumes at"));
  EXPECT_TRUE(Fails(CheckResumable(stream_, always(PositionText(30))), "Resumable", "resumes at"));
  EXPECT_TRUE(Fails(CheckResumable(stream_, always("")), "Resumable", "instead of"));
  EXPECT_TRUE(
      Fails(CheckResumable(stream_, always(absl::InternalError("?"))), "Resumable", "fails"));
  EXPECT_TRUE(CheckResumable(stream_, always(ErrorWithReason(absl::StatusCode::kOutOfRange,
                                                             reason::kCursorExpired, "gone")))
                  .ok());
}

TEST_F(GuaranteesTest, BoundedFailsOnTooMuchTooLittleAndOpenEnd) {
  Connect();
  Send(InsertTransaction(10, 1));
  const auto p10 = PositionText(10);
  const auto p20 = PositionText(20);
  EXPECT_TRUE(Fails(CheckBounded(stream_, p20, {p10}), "Bounded", "ended with ''"));
  stream_.Disconnected("OK");
  EXPECT_TRUE(CheckBounded(stream_, p20, {p10}).ok());
  EXPECT_TRUE(Fails(CheckBounded(stream_, p20, {p10, p20}), "Bounded", "instead of"));
  EXPECT_TRUE(Fails(CheckBounded(stream_, p20, {}), "Bounded", "instead of"));
}

TEST_F(GuaranteesTest, ProgressingFailsOnSilenceAndOnProgressWithoutCursor) {
  Connect();
  stream_.Record(ProgressRecord("cursor-1"), std::chrono::milliseconds(14'999));
  EXPECT_TRUE(CheckProgressing(stream_).ok()) << CheckProgressing(stream_);
  stream_.Record(ProgressRecord("cursor-1"), std::chrono::milliseconds(15'001));
  EXPECT_TRUE(Fails(CheckProgressing(stream_), "Progressing", "nothing came for"));
  RecordedStream other("violation");
  other.DoNotCheck();
  other.Connected({});
  other.Record(OpenedRecord("start"));
  other.Record(ProgressRecord(""));
  EXPECT_TRUE(Fails(CheckProgressing(other), "Progressing", "behind the rows has cursor ''"));
}

TEST_F(GuaranteesTest, DurableFailsOnConfirmationAheadOfTheDisk) {
  EXPECT_TRUE(CheckDurable({{5, 5}, {5, 9}, {9, 9}}).ok());
  EXPECT_TRUE(Fails(CheckDurable({{5, 5}, {9, 8}}), "Durable", "look 1"));
}

TEST(RecordedStreamTest, FailsTheTestOnItsOwnWhenItEnds) {
  const auto record_violation = [] {
    RecordedStream stream("forgotten");
    stream.Connected({});
    stream.Record(OpenedRecord("start"));
    stream.Record(SchemaRecord());
    stream.Record(BatchRecord({InsertTransaction(20, 1), InsertTransaction(10, 2)}));
  };
  ::testing::TestPartResultArray results;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    record_violation();
  }
  ASSERT_GE(results.size(), 1);
  EXPECT_THAT(results.GetTestPartResult(0).message(), HasSubstr("stream forgotten: Ordered"));
}

TEST(RecordedStreamTest, FoldsRowsAndChangesAndStartsAnewWithABootstrap) {
  RecordedStream stream("fold");
  stream.Connected({});
  stream.Record(OpenedRecord("start", true));
  stream.Record(SchemaRecord());
  stream.Record(RowRecord(1, "gone when the rows begin again"));
  stream.Disconnected("broken");
  EXPECT_EQ(stream.resume_cursor(), "");
  stream.Connected({});
  stream.Record(OpenedRecord("start", true));
  stream.Record(SchemaRecord());
  stream.Record(RowRecord(2, "Bob"));
  stream.Record(RowRecord(3, "Cid"));
  stream.Record(RowsEndRecord("cursor-5"));
  EXPECT_EQ(stream.resume_cursor(), "cursor-5");
  stream.Record(BatchRecord(
      {LastPart(10,
                {AccountChange(v1::OP_UPDATE, 0, 2, "Bea"), AccountChange(v1::OP_DELETE, 1, 3),
                 AccountChange(v1::OP_INSERT, 2, 4, "Dan")},
                3)}));
  const auto rows = Fold(stream);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const FoldedRows expected = {
      {"public.account",
       {{"id='2'", {{"id", "2"}, {"owner", "Bea"}}}, {"id='4'", {{"id", "4"}, {"owner", "Dan"}}}}}};
  EXPECT_EQ(*rows, expected);
}

TEST(RecordedStreamTest, PutsValuesInPartsTogether) {
  RecordedStream stream("parts");
  const std::string owner(10'000, 'x');
  const ChangeInParts in_parts = AccountInParts(0, 1, owner, 4'096);
  stream.Connected({});
  stream.Record(OpenedRecord("start"));
  stream.Record(SchemaRecord());
  stream.Record(BatchRecord({TransactionPart(20, {in_parts.change})}));
  for (const v1::ValuePart& part : in_parts.parts) {
    v1::Transaction piece = TransactionPart(20, {});
    *piece.add_runs()->add_value_parts() = part;
    stream.Record(BatchRecord({piece}));
  }
  stream.Record(BatchRecord({LastPart(20, {}, 1)}));
  const auto seen = SeenTransactions(stream);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->size(), 1u);
  EXPECT_EQ((*seen)[0].changes.at(0).columns.at("owner"), owner);
}

}  // namespace
}  // namespace tidemark::testing
