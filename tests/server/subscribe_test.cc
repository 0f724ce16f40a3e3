// The Subscribe call over real gRPC and a real store.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/timestamps.h"
#include "server/limits.h"
#include "tests/server/serving_fixture.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::At;
using testing::LiveSubscriber;
using testing::RecordedStream;
using testing::SampleTable;
using testing::SampleTransaction;
using Record = v1::SubscribeResponse;

class SubscribeTest : public testing::ServingFixture {
 protected:
  v1::SubscribeRequest Earliest() const {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->mutable_earliest();
    return request;
  }
  // Reads until `count` transactions are finished.
  static ::testing::AssertionResult ReadTransactions(LiveSubscriber& subscriber,
                                                     const RecordedStream& stream, uint64_t count) {
    return subscriber.ReadUntil([&] { return stream.finished_transactions() >= count; }, kDeadline);
  }
  static ::testing::AssertionResult ReadRecord(LiveSubscriber& subscriber,
                                               const RecordedStream& stream,
                                               Record::RecordCase kind) {
    return subscriber.ReadUntil([&] { return Last(stream, kind) != nullptr; }, kDeadline);
  }
  static size_t CountOf(const RecordedStream& stream, Record::RecordCase kind) {
    size_t count = 0;
    for (const auto& event : stream.segments().back().events) {
      count += event.record.record_case() == kind ? 1 : 0;
    }
    return count;
  }
};

TEST_F(SubscribeTest, EarliestSendsTheLogThenTheTail) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1}), SampleTransaction(102, {2, 3})});
  RecordedStream stream("earliest");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 2));
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  EXPECT_EQ(Last(stream, Record::kProgress)->progress().state(), v1::FEED_STATE_LIVE);
  Append({SampleTransaction(103, {4})});
  Append({SampleTransaction(104, {5}, SampleTable("items"))});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 4));
  EXPECT_EQ(Numbers(stream), (std::vector<uint64_t>{101, 102, 103, 104}));
  const auto& events = stream.segments()[0].events;
  ASSERT_EQ(events[0].record.record_case(), Record::kOpened);
  const v1::Opened& opened = events[0].record.opened();
  EXPECT_EQ(opened.start_cursor(), feed().Cursor(At(100)));
  EXPECT_EQ(opened.head_cursor(), feed().Cursor(At(102)));
  EXPECT_FALSE(opened.rows_follow());
  EXPECT_TRUE(opened.rows_before_log());
  EXPECT_EQ(opened.longest_silence().seconds(), 15);
  // Each schema once, before its first use: the recording checks the order.
  EXPECT_EQ(CountOf(stream, Record::kTableSchema), 2u);
}

TEST_F(SubscribeTest, ResumesStrictlyBehindEveryCursor) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1}), SampleTransaction(102, {2})});
  RecordedStream stream("resumed");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 2));
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  Append({SampleTransaction(103, {3})});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 3));
  subscriber.Disconnect();
  Append({SampleTransaction(104, {4})});
  const auto checked = testing::CheckResumable(
      stream, [&](const std::string& cursor) -> absl::StatusOr<std::string> {
        v1::SubscribeRequest request = Request();
        request.mutable_start()->set_cursor(cursor);
        RecordedStream again("again");
        LiveSubscriber one(address(), request, &again);
        one.Connect();
        if (auto read = ReadTransactions(one, again, 1); !read) {
          return absl::InternalError(read.message());
        }
        return At(Numbers(again)[0]).Text();
      });
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST_F(SubscribeTest, LatestSendsOnlyWhatComes) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1})});
  v1::SubscribeRequest request = Request();
  request.mutable_start()->mutable_latest();
  RecordedStream stream("latest");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  Append({SampleTransaction(102, {2})});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1));
  EXPECT_EQ(Numbers(stream), (std::vector<uint64_t>{102}));
}

TEST_F(SubscribeTest, SnapshotSendsRowsThenTheLogWithoutAGap) {
  MakeSnapshot({1, 2, 3});
  Append({SampleTransaction(101, {4})});
  Fold();
  // Behind the fold: must come from the log.
  Append({SampleTransaction(102, {5})});
  RecordedStream stream("snapshot");
  LiveSubscriber subscriber(address(), Request(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1));
  EXPECT_EQ(RowIds(stream), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(Numbers(stream), (std::vector<uint64_t>{102}));
  EXPECT_TRUE(stream.segments()[0].events[0].record.opened().rows_follow());
  EXPECT_EQ(stream.segments()[0].events[0].record.opened().start_cursor(), feed().Cursor(At(101)));
  EXPECT_EQ(Last(stream, Record::kRows)->rows().cursor(), feed().Cursor(At(101)));
}

TEST_F(SubscribeTest, TablesWithoutRowsComeFromTheLogBelowTheBoundary) {
  MakeSnapshot({1}, {SampleTable("rowless")});
  Append({SampleTransaction(101, {10}, SampleTable("rowless")), SampleTransaction(102, {2})});
  Fold();
  Append({SampleTransaction(103, {11}, SampleTable("rowless")), SampleTransaction(104, {3})});
  RecordedStream stream("mixed");
  LiveSubscriber subscriber(address(), Request(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.resume_cursor() == feed().Cursor(At(104)); },
                                   kDeadline));
  EXPECT_EQ(RowIds(stream), (std::vector<int64_t>{1, 2}));
  // 102 is in the rows; 101 has no cursor, since it does not resume.
  EXPECT_EQ(Numbers(stream), (std::vector<uint64_t>{101, 103, 104}));
}

TEST_F(SubscribeTest, TablesWithoutRowsAreRefusedOnceTheLogIsTrimmed) {
  MakeSnapshot({1}, {SampleTable("rowless")});
  Append({SampleTransaction(101, {1}), SampleTransaction(102, {2})});
  Fold();
  ASSERT_TRUE(store().Trim({.age = absl::Seconds(1), .bytes = 1}, absl::Now(), {}).ok());
  ASSERT_GT(store().floor(), At(100));
  EXPECT_EQ(Refusal(Request()), "9 SNAPSHOT_UNAVAILABLE");
  v1::SubscribeRequest orders = Request();
  orders.mutable_filter()->add_tables("public.orders");
  EXPECT_EQ(Refusal(orders), "not refused");
}

TEST_F(SubscribeTest, LargeTransactionsComeInPartsWithTheCursorOnTheLast) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1})});
  AppendLarge(102, 40, 300'000);
  Append({SampleTransaction(103, {2})});
  RecordedStream stream("large");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 3));
  // Live, too.
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  AppendLarge(104, 20, 300'000);
  Append({SampleTransaction(105, {3})});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 5));
  EXPECT_EQ(Numbers(stream), (std::vector<uint64_t>{101, 102, 103, 104, 105}));
  size_t parts = 0;
  for (const auto& event : stream.segments()[0].events) {
    EXPECT_LE(event.record.ByteSizeLong(), limits::message_bytes_max);
    for (const auto& transaction : event.record.batch().transactions()) {
      parts += transaction.position() == At(102).Text() ? 1 : 0;
    }
  }
  EXPECT_GT(parts, 5u);
}

TEST_F(SubscribeTest, NoMessageIsLargerThanTheClientAskedFor) {
  MakeSnapshot();
  AppendLarge(101, 30, 900'000);
  Append({SampleTransaction(102, {1})});
  v1::SubscribeRequest request = Earliest();
  request.mutable_limits()->set_message_bytes_max(limits::message_bytes_min);
  RecordedStream stream("small messages");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 2));
  for (const auto& event : stream.segments()[0].events) {
    EXPECT_LE(event.record.ByteSizeLong(), limits::message_bytes_min);
  }
}

TEST_F(SubscribeTest, SmallTransactionsArePackedTogether) {
  MakeSnapshot();
  std::vector<EncodedTransaction> transactions;
  for (uint64_t number = 101; number < 1'101; ++number) {
    transactions.push_back(SampleTransaction(number, {1}));
  }
  Append(std::move(transactions));
  RecordedStream stream("packed");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1'000));
  EXPECT_LE(CountOf(stream, Record::kBatch), 10u);
}

TEST_F(SubscribeTest, FiltersTheLogAndTheTailAlike) {
  MakeSnapshot();
  const auto mixed = [](uint64_t number) {
    EncodedTransaction transaction = SampleTransaction(number, {1, 2});
    const v1::TableSchema items = SampleTable("items");
    transaction.runs.push_back(testing::SampleRun(2, {3}, v1::OP_UPDATE, items));
    transaction.record.add_schema_ids(items.schema_id());
    transaction.record.set_changes(3);
    return transaction;
  };
  Append({SampleTransaction(101, {1}), mixed(102)});
  v1::SubscribeRequest request = Earliest();
  request.mutable_filter()->add_tables("public.items");
  RecordedStream stream("filtered");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 1));
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  Append({SampleTransaction(103, {1}), mixed(104)});
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 2));
  const auto seen = testing::SeenTransactions(stream);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(Numbers(stream), (std::vector<uint64_t>{102, 104}));
  for (const auto& transaction : *seen) {
    EXPECT_EQ(transaction.changes_total, 3u);
    EXPECT_EQ(transaction.changes_delivered, 1u);
    EXPECT_EQ(transaction.changes[0].sequence, 2u);
  }
  EXPECT_EQ(CountOf(stream, Record::kTableSchema), 1u);
}

// proves B157
TEST_F(SubscribeTest, AFullyFilteredStreamMovesItsCursor) {
  MakeSnapshot({}, {SampleTable("items")});
  v1::SubscribeRequest request = Earliest();
  request.mutable_filter()->add_tables("public.items");
  *request.mutable_progress_period() = ToDuration(absl::Milliseconds(100));
  RecordedStream stream("quiet");
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  for (uint64_t number = 101; number < 111; ++number) Append({SampleTransaction(number, {1})});
  AppendIdle(150);
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.resume_cursor() == feed().Cursor(At(150)); },
                                   kDeadline));
  EXPECT_EQ(stream.finished_transactions(), 0u);
  EXPECT_EQ(Last(stream, Record::kProgress)->progress().state(), v1::FEED_STATE_LIVE);
  source().SetState(v1::SOURCE_STATE_CONNECTING);
  ASSERT_TRUE(subscriber.ReadUntil(
      [&] {
        return Last(stream, Record::kProgress)->progress().state() == v1::FEED_STATE_SOURCE_DOWN;
      },
      kDeadline));
}

TEST_F(SubscribeTest, DrainEndsEveryStreamWithItsCursor) {
  MakeSnapshot();
  Append({SampleTransaction(101, {1})});
  RecordedStream idle("idle");
  LiveSubscriber subscriber(address(), Earliest(), &idle);
  subscriber.Connect();
  ASSERT_TRUE(ReadRecord(subscriber, idle, Record::kProgress));
  EXPECT_EQ(streams().Count("shop"), 1u);
  streams().Drain(
      {ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining, "the server stops"),
       absl::Seconds(2)});
  ASSERT_TRUE(subscriber.ReadToEnd(kDeadline));
  const v1::SubscribeResponse* closing = Last(idle, Record::kClosing);
  ASSERT_NE(closing, nullptr);
  EXPECT_EQ(closing, &idle.segments()[0].events.back().record);
  EXPECT_EQ(closing->closing().reason(), reason::kServerDraining);
  EXPECT_EQ(closing->closing().cursor(), feed().Cursor(At(101)));
  EXPECT_EQ(closing->closing().retry_after().seconds(), 2);
  EXPECT_EQ(subscriber.end().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(subscriber.end()), reason::kServerDraining);
  EXPECT_TRUE(streams().WaitUntilEmpty(absl::Now() + absl::Seconds(10)));
  EXPECT_EQ(Refusal(Earliest()), "14 SERVER_DRAINING");
}

// proves B155
TEST_F(SubscribeTest, AReaderThatTakesNothingHoldsUpNobodyAndLittleMemory) {
  MakeSnapshot();
  // Reads its first record and nothing more.
  grpc::ClientContext context;
  auto stuck = stub().Subscribe(&context, Earliest());
  v1::SubscribeResponse record;
  ASSERT_TRUE(stuck->Read(&record));

  RecordedStream stream("beside a stuck reader");
  LiveSubscriber subscriber(address(), Earliest(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(ReadRecord(subscriber, stream, Record::kProgress));
  // Far more than gRPC buffers for the stuck one, and more than the ring holds.
  Append({SampleTransaction(101, {1})});
  for (uint64_t number = 102; number < 123; ++number) AppendLarge(number, 10, 90'000);
  ASSERT_TRUE(ReadTransactions(subscriber, stream, 22));
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        const auto views = streams().List("shop");
        return views.size() == 2 && views[0].stalled_since.has_value() &&
               !views[1].stalled_since.has_value();
      },
      kDeadline));
  EXPECT_LT(streams().List("shop")[0].sent_bytes, 8 * limits::kMiB);
  // Once it reads again it gets everything.
  uint64_t finished = 0;
  while (finished < 22 && stuck->Read(&record)) {
    for (const auto& transaction : record.batch().transactions()) finished += transaction.last();
  }
  EXPECT_EQ(finished, 22u);
  context.TryCancel();
  while (stuck->Read(&record)) {
  }
  stuck->Finish();
  EXPECT_TRUE(testing::WaitUntil([&] { return streams().Count("shop") == 1; }, kDeadline));
}

TEST_F(SubscribeTest, ManyReadersOfTheTailSeeTheSame) {
  MakeSnapshot();
  std::vector<std::unique_ptr<RecordedStream>> streams;
  std::vector<std::unique_ptr<LiveSubscriber>> subscribers;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(std::make_unique<RecordedStream>("reader " + std::to_string(i)));
    subscribers.push_back(
        std::make_unique<LiveSubscriber>(address(), Earliest(), streams.back().get()));
    subscribers.back()->Connect();
    ASSERT_TRUE(ReadRecord(*subscribers.back(), *streams.back(), Record::kProgress));
  }
  std::vector<uint64_t> wanted;
  for (uint64_t number = 101; number < 301; ++number) {
    Append({SampleTransaction(number, {static_cast<int64_t>(number)})});
    wanted.push_back(number);
  }
  for (size_t i = 0; i < subscribers.size(); ++i) {
    ASSERT_TRUE(ReadTransactions(*subscribers[i], *streams[i], 200));
    EXPECT_EQ(Numbers(*streams[i]), wanted);
  }
}

TEST_F(SubscribeTest, ABootstrapHoldsTheLogInPlaceUntilItCaughtUp) {
  std::vector<int64_t> ids(100'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  MakeSnapshot(ids);
  grpc::ClientContext context;
  auto reader = stub().Subscribe(&context, Request());
  v1::SubscribeResponse record;
  ASSERT_TRUE(reader->Read(&record));
  ASSERT_TRUE(record.opened().rows_follow());
  for (uint64_t number = 101; number < 111; ++number) Append({SampleTransaction(number, {1})});
  Fold();
  ASSERT_EQ(streams().KeepFrom("shop"), std::optional(At(100)));
  ASSERT_TRUE(
      store()
          .Trim({.age = absl::Seconds(1), .bytes = 1}, absl::Now(), streams().KeepFrom("shop"))
          .ok());
  uint64_t finished = 0;
  while (finished < 10 && reader->Read(&record)) {
    for (const auto& transaction : record.batch().transactions()) finished += transaction.last();
  }
  EXPECT_EQ(finished, 10u);
  EXPECT_TRUE(testing::WaitUntil([&] { return !streams().KeepFrom("shop"); }, kDeadline));
  context.TryCancel();
  while (reader->Read(&record)) {
  }
  reader->Finish();
}

TEST_F(SubscribeTest, RefusesBadRequestsBeforeAnything) {
  const auto refused = [&](const std::function<void(v1::SubscribeRequest*)>& spoil) {
    v1::SubscribeRequest request = Request();
    spoil(&request);
    return Refusal(request);
  };
  // Not even the feed was ready.
  EXPECT_EQ(Refusal(Request()), "14 FEED_NOT_READY");
  MakeSnapshot();
  EXPECT_EQ(refused([](auto* r) { r->set_feed("nowhere"); }), "5 FEED_UNKNOWN");
  EXPECT_EQ(refused([](auto* r) { r->set_label(std::string(129, 'x')); }), "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_progress_period()->set_nanos(1); }),
            "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_progress_period()->set_seconds(301); }),
            "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_limits()->set_message_bytes_max(1'000); }),
            "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_filter()->add_ops(static_cast<v1::Op>(9)); }),
            "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_filter()->add_tables("public"); }),
            "3 REQUEST_INVALID");
  EXPECT_EQ(refused([](auto* r) { r->mutable_filter()->add_tables("public.never"); }),
            "3 TABLE_UNKNOWN");
  EXPECT_EQ(refused([](auto* r) { r->mutable_filter()->add_tables("never.*"); }), "not refused");
  EXPECT_EQ(refused([](auto* r) { r->mutable_filter()->add_columns(); }), "12 FEATURE_UNSUPPORTED");
  EXPECT_EQ(refused([](auto* r) { r->mutable_start()->mutable_time(); }), "12 FEATURE_UNSUPPORTED");
  EXPECT_EQ(refused([](auto* r) { r->mutable_start()->set_native_position("0/0"); }),
            "12 FEATURE_UNSUPPORTED");
  EXPECT_EQ(refused([](auto* r) { r->mutable_start()->set_subscription("s"); }),
            "12 FEATURE_UNSUPPORTED");
  EXPECT_EQ(refused([](auto* r) { r->mutable_until()->mutable_none(); }), "not refused");
  // What a newer client may ask for is not taken for a snapshot.
  EXPECT_EQ(refused([](auto* r) {
              auto* start = r->mutable_start();
              start->GetReflection()->MutableUnknownFields(start)->AddVarint(99, 1);
            }),
            "3 REQUEST_INVALID");
}

// proves B153
TEST_F(SubscribeTest, TellsApartWhatIsWrongWithACursor) {
  MakeSnapshot();
  for (uint64_t number = 101; number < 111; ++number) Append({SampleTransaction(number, {1})});
  Fold();
  ASSERT_TRUE(store().Trim({.age = absl::Seconds(1), .bytes = 1}, absl::Now(), {}).ok());
  const auto refusal = [&](const std::string& cursor) {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->set_cursor(cursor);
    return Refusal(request);
  };
  const std::string good = feed().Cursor(At(110));
  EXPECT_EQ(refusal(good), "not refused");
  EXPECT_EQ(refusal(""), "3 CURSOR_MALFORMED");
  EXPECT_EQ(refusal(good.substr(0, 20)), "3 CURSOR_MALFORMED");
  EXPECT_EQ(refusal(std::string(1'000'000, 'A')), "3 CURSOR_MALFORMED");
  std::string flipped = good;
  flipped[40] = flipped[40] == 'A' ? 'B' : 'A';
  EXPECT_EQ(refusal(flipped), "3 CURSOR_FORGED");
  EXPECT_EQ(refusal(feed().Cursor(At(99))), "11 CURSOR_EXPIRED");
  EXPECT_EQ(refusal(feed().Cursor(At(1'000))), "14 CURSOR_AHEAD");
}

}  // namespace
}  // namespace tidemark
