#include "client/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/reason.h"
#include "proto/reason.h"
#include "tests/client/recording_handler.h"
#include "tests/testing/written_records.h"

namespace tidemark::client {
namespace {

using namespace tidemark::testing;  // NOLINT: records read better bare
using ::testing::ElementsAre;

class DeliveryTest : public ::testing::Test {
 protected:
  // Begins a stream and plays the records until one is refused.
  absl::Status Play(const std::vector<v1::SubscribeResponse>& records) {
    delivery_.BeginStream();
    for (const v1::SubscribeResponse& record : records) {
      if (absl::Status taken = delivery_.Take(record); !taken.ok()) return taken;
    }
    return absl::OkStatus();
  }

  static v1::Start FromSnapshot() {
    v1::Start start;
    start.mutable_snapshot();
    return start;
  }

  const v1::Start start_ = FromSnapshot();
  RecordingHandler handler_;
  Delivery delivery_{handler_, start_, v1::Until(), 1 << 20};
};

TEST_F(DeliveryTest, HandsOverTransactionsAndMovesTheCursor) {
  ASSERT_TRUE(Play({OpenedRecord("cursor-0"), SchemaRecord(),
                    BatchRecord({InsertTransaction(10, 1), InsertTransaction(20, 2, "Bob")})})
                  .ok());
  EXPECT_THAT(handler_.calls,
              ElementsAre("opened", "begin 10", "10/0 insert 1 \"Ann\"", "end 10 cursor-10",
                          "begin 20", "20/0 insert 2 \"Bob\"", "end 20 cursor-20"));
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-20");
  ASSERT_TRUE(delivery_.Take(ProgressRecord("cursor-25")).ok());
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-25");
}

TEST_F(DeliveryTest, FixesTheStartOnceItIsResolved) {
  EXPECT_TRUE(delivery_.NextStart().has_snapshot());
  ASSERT_TRUE(Play({OpenedRecord("cursor-7")}).ok());
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-7");
}

TEST_F(DeliveryTest, GoesOnInsideALargeTransactionWithoutRepeating) {
  const auto first = TransactionPart(
      20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann"), AccountChange(v1::OP_INSERT, 1, 2, "Bob")});
  ASSERT_TRUE(Play({OpenedRecord("cursor-0"), SchemaRecord(), BatchRecord({first})}).ok());
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-0");
  ASSERT_TRUE(Play({OpenedRecord("cursor-0"), SchemaRecord(), BatchRecord({first}),
                    BatchRecord({LastPart(20, {AccountChange(v1::OP_INSERT, 2, 3, "Cid")}, 3)})})
                  .ok());
  EXPECT_THAT(handler_.calls,
              ElementsAre("opened", "begin 20", "20/0 insert 1 \"Ann\"", "20/1 insert 2 \"Bob\"",
                          "opened", "20/2 insert 3 \"Cid\"", "end 20 cursor-20"));
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-20");
}

TEST_F(DeliveryTest, BeginsABootstrapAnewAndSaysSo) {
  ASSERT_TRUE(Play({OpenedRecord("cursor-5", true), SchemaRecord(), RowRecord(1, "Ann"),
                    ProgressRecord("cursor-5")})
                  .ok());
  EXPECT_TRUE(delivery_.NextStart().has_snapshot());
  ASSERT_TRUE(Play({OpenedRecord("cursor-9", true), SchemaRecord(), RowRecord(2, "Bob"),
                    RowsEndRecord("cursor-9"), BatchRecord({InsertTransaction(10, 3)})})
                  .ok());
  EXPECT_THAT(handler_.calls,
              ElementsAre("opened", "row 1/0 read 1 \"Ann\"", "progress ", "opened", "rows again",
                          "row 1/0 read 2 \"Bob\"", "rows end cursor-9", "begin 10",
                          "10/0 insert 3 \"Ann\"", "end 10 cursor-10"));
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-10");
}

TEST_F(DeliveryTest, TakesTransactionsOfABootstrapWithoutACursor) {
  v1::Transaction below = InsertTransaction(3, 1);
  below.clear_cursor();
  ASSERT_TRUE(Play({OpenedRecord("cursor-5", true), SchemaRecord(), BatchRecord({below})}).ok());
  EXPECT_TRUE(delivery_.NextStart().has_snapshot());
  ASSERT_TRUE(Play({OpenedRecord("cursor-5", true), SchemaRecord(), BatchRecord({below}),
                    RowsEndRecord("cursor-5")})
                  .ok());
  EXPECT_THAT(handler_.calls, ElementsAre("opened", "begin 3", "3/0 insert 1 \"Ann\"", "end 3 ",
                                          "opened", "rows again", "begin 3", "3/0 insert 1 \"Ann\"",
                                          "end 3 ", "rows end cursor-5"));
}

v1::SubscribeResponse BoundRecord(uint64_t lsn) {
  v1::SubscribeResponse record;
  record.mutable_bound()->set_position(PositionText(lsn));
  record.mutable_bound()->set_native_position(fmt::format("0/{}", lsn));
  return record;
}

class BoundedDeliveryTest : public DeliveryTest {
 protected:
  static v1::Until Now() {
    v1::Until until;
    until.mutable_now();
    return until;
  }

  Delivery now_{handler_, start_, Now(), 1 << 20};
};

// proves S23: behind the rows, the bound that was looked up is kept.
TEST_F(BoundedDeliveryTest, KeepsItsBoundOnceThereIsACursor) {
  now_.BeginStream();
  ASSERT_TRUE(now_.Take(OpenedRecord("cursor-5", true)).ok());
  ASSERT_TRUE(now_.Take(BoundRecord(20)).ok());
  ASSERT_TRUE(now_.Take(RowsEndRecord("cursor-5")).ok());
  EXPECT_EQ(now_.NextUntil().native_position(), "0/20");
  now_.BeginStream();
  ASSERT_TRUE(now_.Take(OpenedRecord("cursor-5")).ok());
  ASSERT_TRUE(now_.Take(BoundRecord(20)).ok());
  EXPECT_EQ(now_.NextUntil().native_position(), "0/20");
  EXPECT_THAT(handler_.calls, ElementsAre("opened", "bound 0/20", "rows end cursor-5", "opened"));
}

TEST_F(BoundedDeliveryTest, AsksForNowAnewWhereTheRowsBeginAnew) {
  now_.BeginStream();
  for (const auto& record :
       {OpenedRecord("cursor-5", true), SchemaRecord(), RowRecord(1, "Ann"), BoundRecord(20)}) {
    ASSERT_TRUE(now_.Take(record).ok());
  }
  EXPECT_TRUE(now_.NextStart().has_snapshot());
  EXPECT_TRUE(now_.NextUntil().has_now());
  now_.BeginStream();
  for (const auto& record : {OpenedRecord("cursor-30", true), SchemaRecord(), RowRecord(1, "Ann"),
                             BoundRecord(40), RowsEndRecord("cursor-30")}) {
    ASSERT_TRUE(now_.Take(record).ok());
  }
  EXPECT_EQ(now_.NextUntil().native_position(), "0/40");
  EXPECT_THAT(handler_.calls,
              ElementsAre("opened", "row 1/0 read 1 \"Ann\"", "bound 0/20", "opened", "rows again",
                          "row 1/0 read 1 \"Ann\"", "bound 0/40", "rows end cursor-30"));
}

// proves S23: commits later than the time may stand before the position that was found for it.
TEST_F(BoundedDeliveryTest, AsksForATimeAgain) {
  v1::Until until;
  until.mutable_time()->set_seconds(100);
  Delivery delivery(handler_, start_, until, 1 << 20);
  delivery.BeginStream();
  ASSERT_TRUE(delivery.Take(OpenedRecord("cursor-5")).ok());
  ASSERT_TRUE(delivery.Take(BoundRecord(20)).ok());
  EXPECT_EQ(delivery.NextStart().cursor(), "cursor-5");
  EXPECT_EQ(delivery.NextUntil().time().seconds(), 100);
}

TEST_F(BoundedDeliveryTest, KeepsABoundThatWasFixedByWhoAskedForIt) {
  v1::Until fixed;
  fixed.set_native_position("0/20");
  Delivery delivery(handler_, start_, fixed, 1 << 20);
  delivery.BeginStream();
  ASSERT_TRUE(delivery.Take(OpenedRecord("cursor-5", true)).ok());
  ASSERT_TRUE(delivery.Take(BoundRecord(20)).ok());
  EXPECT_EQ(delivery.NextUntil().native_position(), "0/20");
}

v1::SubscribeResponse GapRecord(const std::string& to_cursor) {
  v1::SubscribeResponse record;
  record.mutable_gap()->set_reason("SLOT_LOST");
  record.mutable_gap()->set_to_cursor(to_cursor);
  return record;
}

// proves B055: told once, since the next stream begins behind it.
TEST_F(DeliveryTest, GoesOnBehindAGap) {
  ASSERT_TRUE(Play({OpenedRecord("cursor-0"), SchemaRecord(),
                    BatchRecord({InsertTransaction(10, 1)}), GapRecord("cursor-12")})
                  .ok());
  EXPECT_EQ(handler_.calls.back(), "gap SLOT_LOST");
  EXPECT_EQ(delivery_.NextStart().cursor(), "cursor-12");
  EXPECT_TRUE(delivery_.has_advanced());
}

TEST_F(DeliveryTest, AGapInABootstrapIsNoPlaceToGoOnFrom) {
  ASSERT_TRUE(Play({OpenedRecord("cursor-9", true), SchemaRecord(), GapRecord("")}).ok());
  EXPECT_EQ(handler_.calls.back(), "gap SLOT_LOST");
  EXPECT_TRUE(delivery_.NextStart().has_snapshot());
}

TEST_F(DeliveryTest, PutsValuesInPartsTogetherInOrder) {
  const ChangeInParts in_parts = AccountInParts(0, 1, "a long name", 4);
  std::vector<v1::SubscribeResponse> records = {
      OpenedRecord("cursor-0"), SchemaRecord(),
      BatchRecord({TransactionPart(20, {in_parts.change})})};
  for (const v1::ValuePart& part : in_parts.parts) {
    v1::Transaction piece = TransactionPart(20, {});
    *piece.add_runs()->add_value_parts() = part;
    records.push_back(BatchRecord({piece}));
  }
  records.push_back(BatchRecord({LastPart(20, {AccountChange(v1::OP_INSERT, 1, 2, "Bob")}, 2)}));
  ASSERT_TRUE(Play(records).ok());
  EXPECT_THAT(handler_.calls, ElementsAre("opened", "begin 20", "20/0 insert 1 \"a long name\"",
                                          "20/1 insert 2 \"Bob\"", "end 20 cursor-20"));
}

TEST_F(DeliveryTest, PutsRowsInPartsTogether) {
  const ChangeInParts in_parts = AccountInParts(0, 1, "a long name", 4);
  v1::SubscribeResponse row = RowRecord(1, "");
  *row.mutable_rows()->mutable_rows(0)->mutable_values(1) = in_parts.change.after(1);
  std::vector<v1::SubscribeResponse> records = {OpenedRecord("cursor-5", true), SchemaRecord(),
                                                row};
  for (const v1::ValuePart& part : in_parts.parts) {
    v1::SubscribeResponse piece;
    piece.mutable_rows()->set_schema_id(AccountSchema().schema_id());
    *piece.mutable_rows()->add_value_parts() = part;
    records.push_back(piece);
  }
  records.push_back(RowsEndRecord("cursor-5"));
  ASSERT_TRUE(Play(records).ok());
  EXPECT_THAT(handler_.calls,
              ElementsAre("opened", "row 1/0 read 1 \"a long name\"", "rows end cursor-5"));
}

TEST_F(DeliveryTest, HoldsNoMoreThanItsBound) {
  const ChangeInParts in_parts = AccountInParts(0, 1, std::string(2 << 20, 'x'), 1 << 20);
  const absl::Status taken = Play({OpenedRecord("cursor-0"), SchemaRecord(),
                                   BatchRecord({TransactionPart(20, {in_parts.change})})});
  EXPECT_EQ(ReasonOf(taken), reason::kValueTooLarge) << taken;
  EXPECT_FALSE(taken.ok());
}

TEST_F(DeliveryTest, PassesOverKindsItDoesNotKnow) {
  v1::SubscribeResponse unknown;
  unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(999, 1);
  EXPECT_TRUE(Play({unknown, OpenedRecord("cursor-0"), unknown}).ok());
}

TEST_F(DeliveryTest, ReturnsTheHandlersErrorAndHandsOverNothingMore) {
  handler_.hook = [](const std::string& call) {
    return call == "begin 20" ? absl::AbortedError("enough") : absl::OkStatus();
  };
  const absl::Status taken =
      Play({OpenedRecord("cursor-0"), SchemaRecord(),
            BatchRecord({InsertTransaction(10, 1), InsertTransaction(20, 2)})});
  EXPECT_EQ(taken.message(), "enough");
  EXPECT_EQ(handler_.calls.back(), "begin 20");
  EXPECT_EQ(delivery_.cursor(), "cursor-10");
}

TEST_F(DeliveryTest, RefusesWhatBreaksAGuarantee) {
  const auto opened = OpenedRecord("cursor-0");
  const auto schema = SchemaRecord();
  v1::Transaction no_cursor = InsertTransaction(20, 1);
  no_cursor.clear_cursor();
  v1::Transaction cut = InsertTransaction(20, 1);
  cut.set_changes_delivered(2);
  ChangeInParts torn = AccountInParts(0, 1, "a long name", 4);
  v1::Transaction incomplete = LastPart(20, {torn.change}, 1);
  v1::Transaction shifted = incomplete;
  *shifted.mutable_runs(0)->add_value_parts() = torn.parts[1];
  const std::vector<std::vector<v1::SubscribeResponse>> streams = {
      {ProgressRecord("cursor-1")},
      {opened, opened},
      {opened, BatchRecord({InsertTransaction(20, 1)})},
      {opened, schema, BatchRecord({InsertTransaction(20, 1), InsertTransaction(20, 2)})},
      {opened, schema, BatchRecord({InsertTransaction(20, 1), InsertTransaction(10, 2)})},
      {opened, schema, BatchRecord({no_cursor})},
      {opened, schema, BatchRecord({cut})},
      {opened, schema, BatchRecord({TransactionPart(20, {}), InsertTransaction(30, 1)})},
      {opened, schema, BatchRecord({incomplete})},
      {opened, schema, BatchRecord({shifted})},
      {opened, schema, RowRecord(1, "Ann")},
      {opened, schema,
       BatchRecord({LastPart(
           20,
           {AccountChange(v1::OP_INSERT, 1, 1, "Ann"), AccountChange(v1::OP_INSERT, 0, 2, "Bob")},
           2)})},
  };
  for (size_t i = 0; i < streams.size(); ++i) {
    RecordingHandler handler;
    Delivery delivery(handler, start_, v1::Until(), 1 << 20);
    delivery.BeginStream();
    absl::Status taken;
    for (const auto& record : streams[i]) {
      if (taken.ok()) taken = delivery.Take(record);
    }
    EXPECT_EQ(ReasonOf(taken), reason::kContractBroken) << "stream " << i << ": " << taken;
  }
}

TEST_F(DeliveryTest, RefusesAnotherTransactionInPlaceOfTheOneItHasInPart) {
  ASSERT_TRUE(
      Play({OpenedRecord("cursor-0"), SchemaRecord(),
            BatchRecord({TransactionPart(20, {AccountChange(v1::OP_INSERT, 0, 1, "Ann")})})})
          .ok());
  const absl::Status taken =
      Play({OpenedRecord("cursor-0"), SchemaRecord(), BatchRecord({InsertTransaction(30, 1)})});
  EXPECT_EQ(ReasonOf(taken), reason::kContractBroken) << taken;
}

}  // namespace
}  // namespace tidemark::client
