// Reads with a bound: exactly what lies at or before it, then FINISHED, and never before that is
// proved. The test plays capture.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "proto/timestamps.h"
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
using testing::WaitUntil;
using Record = v1::SubscribeResponse;

// The commit time of transaction N is N seconds after the epoch.
absl::Time TimeOf(uint64_t number) { return absl::FromUnixSeconds(static_cast<int64_t>(number)); }

class BoundedReadTest : public testing::ServingFixture {
 protected:
  static v1::SubscribeRequest Earliest() {
    v1::SubscribeRequest request = Request();
    request.mutable_start()->mutable_earliest();
    return request;
  }
  static v1::SubscribeRequest UntilNative(const std::string& bound) {
    v1::SubscribeRequest request = Earliest();
    request.mutable_until()->set_native_position(bound);
    return request;
  }
  static v1::SubscribeRequest UntilTime(absl::Time time) {
    v1::SubscribeRequest request = Earliest();
    *request.mutable_until()->mutable_time() = ToTimestamp(time);
    return request;
  }
  static v1::SubscribeRequest UntilNow() {
    v1::SubscribeRequest request = Earliest();
    request.mutable_until()->mutable_now();
    return request;
  }
  static std::vector<std::string> Texts(const std::vector<uint64_t>& numbers) {
    std::vector<std::string> texts;
    for (const uint64_t number : numbers) texts.push_back(At(number).Text());
    return texts;
  }
  // The stream that `subscriber` reads ends as it must, with these transactions.
  static void ExpectFinished(LiveSubscriber& subscriber, const RecordedStream& stream,
                             const std::vector<uint64_t>& numbers) {
    ASSERT_TRUE(subscriber.ReadToEnd(kDeadline));
    const auto bounded = testing::CheckBounded(stream, "its bound", Texts(numbers));
    EXPECT_TRUE(bounded.ok()) << bounded;
    ASSERT_NE(Last(stream, Record::kClosing), nullptr);
    EXPECT_EQ(Last(stream, Record::kClosing)->closing().reason(), "FINISHED");
    EXPECT_NE(Last(stream, Record::kBound), nullptr);
  }
  void ExpectRead(const v1::SubscribeRequest& request, const std::vector<uint64_t>& numbers) {
    RecordedStream stream("bounded");
    LiveSubscriber subscriber(address(), request, &stream);
    subscriber.Connect();
    ExpectFinished(subscriber, stream, numbers);
  }
  // Plays capture: answers whoever asks where the source's log ends.
  ::testing::AssertionResult Answer(uint64_t end, absl::Time clock) {
    bool asked = false;
    return WaitUntil(
        [&] {
          const absl::Time now = absl::Now();
          if (asked || !feed().bounds().Look(now, feed().tail().proved()).sample) return asked;
          feed().bounds().Sampled(capture::LogEnd{At(end), clock}, now);
          asked = true;
          return true;
        },
        kDeadline);
  }
};

// proves S10, S16, S37
TEST_F(BoundedReadTest, ABoundThatIsReachedEndsTheReadAtOnce) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2}), SampleTransaction(130, {3})});
  ExpectRead(UntilNative("120"), {110, 120});
  ExpectRead(UntilNative("119"), {110});
  ExpectRead(UntilNative("129"), {110, 120});
  ExpectRead(UntilNative("130"), {110, 120, 130});
  ExpectRead(UntilNative("100"), {});
  v1::SubscribeRequest filtered = UntilNative("130");
  filtered.mutable_filter()->add_tables("public.no*");
  ExpectRead(filtered, {});
}

TEST_F(BoundedReadTest, ACursorIsABound) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2})});
  v1::SubscribeRequest request = Earliest();
  request.mutable_until()->set_cursor(feed().Cursor(At(110)));
  ExpectRead(request, {110});
  *request.mutable_start() = RequestFrom(110).start();
  ExpectRead(request, {});
}

TEST_F(BoundedReadTest, GoesOnBehindItsEnd) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2}), SampleTransaction(130, {3})});
  RecordedStream stream("first");
  LiveSubscriber first(address(), UntilNative("125"), &stream);
  first.Connect();
  ExpectFinished(first, stream, {110, 120});
  v1::SubscribeRequest rest = Request();
  rest.mutable_start()->set_cursor(Last(stream, Record::kClosing)->closing().cursor());
  rest.mutable_until()->set_native_position("130");
  ExpectRead(rest, {130});
}

// proves S14, S16, S17, S19
TEST_F(BoundedReadTest, AFutureBoundIsReachedByProofAlone) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  RecordedStream stream("future");
  v1::SubscribeRequest request = UntilNative("150");
  request.mutable_progress_period()->set_nanos(100'000'000);
  LiveSubscriber subscriber(address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  EXPECT_EQ(feed().bounds().Look(absl::Now(), At(110)).prove, At(150));
  AppendIdle(149);
  // Records go by, and none of them is the end.
  const std::string idle = feed().Cursor(At(149));
  ASSERT_TRUE(subscriber.ReadUntil(
      [&] { return Last(stream, Record::kProgress)->progress().cursor() == idle; }, kDeadline));
  EXPECT_EQ(Last(stream, Record::kClosing), nullptr);
  // What is proved lies beyond, with nothing to decode between.
  AppendIdle(170);
  ExpectFinished(subscriber, stream, {110});
}

// proves S10, S18
TEST_F(BoundedReadTest, ABatchAcrossTheBoundIsCutThere) {
  MakeSnapshot();
  RecordedStream stream("live");
  LiveSubscriber subscriber(address(), UntilNative("125"), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  // One chunk of the ring.
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2}), SampleTransaction(130, {3}),
          SampleTransaction(140, {4})});
  ExpectFinished(subscriber, stream, {110, 120});
}

// proves S12, S57
TEST_F(BoundedReadTest, ALargeTransactionIsInOrOutWhole) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  AppendLarge(120, 5, 1 << 20);
  Append({SampleTransaction(130, {2})});
  ExpectRead(UntilNative("119"), {110});
  ExpectRead(UntilNative("120"), {110, 120});
  RecordedStream stream("live");
  LiveSubscriber subscriber(address(), UntilNative("145"), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  AppendLarge(140, 5, 1 << 20);
  AppendLarge(150, 5, 1 << 20);
  ExpectFinished(subscriber, stream, {110, 120, 130, 140});
}

// proves S06, S50
TEST_F(BoundedReadTest, NowIsWhereTheSourceEndsWhenItIsAsked) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  RecordedStream stream("now");
  LiveSubscriber subscriber(address(), UntilNow(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  EXPECT_EQ(Last(stream, Record::kBound), nullptr) << "nobody was asked yet";
  // Visible before the source is asked, so durable there before.
  Append({SampleTransaction(120, {2})});
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.finished_transactions() == 2; }, kDeadline));
  ASSERT_TRUE(Answer(135, TimeOf(1)));
  Append({SampleTransaction(130, {3}), SampleTransaction(140, {4})});
  ExpectFinished(subscriber, stream, {110, 120, 130});
  EXPECT_EQ(Last(stream, Record::kBound)->bound().native_position(), "135");
}

TEST_F(BoundedReadTest, NowWithAnIdleSourceEndsWithoutATransaction) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  RecordedStream stream("idle");
  LiveSubscriber subscriber(address(), UntilNow(), &stream);
  subscriber.Connect();
  ASSERT_TRUE(Answer(110, TimeOf(1)));
  ExpectFinished(subscriber, stream, {110});
}

TEST_F(BoundedReadTest, ATimeThatIsPastEndsBeforeTheFirstLaterCommit) {
  MakeSnapshot();
  // Commit times are not ordered.
  EncodedTransaction early = SampleTransaction(130, {3});
  early.record.set_commit_time_us(105'000'000);
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2}), early});
  ExpectRead(UntilTime(TimeOf(119)), {110});
  ExpectRead(UntilTime(TimeOf(110)), {110});
  ExpectRead(UntilTime(TimeOf(110) - absl::Microseconds(1)), {});
  // From the ring, too.
  RecordedStream stream("live");
  LiveSubscriber subscriber(address(), UntilTime(TimeOf(145)), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  Append({SampleTransaction(140, {4}), SampleTransaction(150, {5}), SampleTransaction(160, {6})});
  ExpectFinished(subscriber, stream, {110, 120, 130, 140});
  EXPECT_EQ(Last(stream, Record::kBound)->bound().native_position(), "149");
}

// proves S06
TEST_F(BoundedReadTest, ATimeThatIsToComeEndsWhereTheSourceThenEnds) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  RecordedStream stream("future");
  LiveSubscriber subscriber(address(), UntilTime(TimeOf(500)), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  // The source's clock has not passed it: no answer, and the stream goes on.
  ASSERT_TRUE(Answer(110, TimeOf(500)));
  Append({SampleTransaction(120, {2})});
  ASSERT_TRUE(subscriber.ReadUntil([&] { return stream.finished_transactions() == 2; }, kDeadline));
  ASSERT_TRUE(Answer(125, TimeOf(500) + absl::Microseconds(1)));
  AppendIdle(130);
  ExpectFinished(subscriber, stream, {110, 120});
  EXPECT_EQ(Last(stream, Record::kBound)->bound().native_position(), "125");
}

// proves S21
TEST_F(BoundedReadTest, OnlyTheBoundFinishesAStream) {
  MakeSnapshot();
  RecordedStream stream("drained");
  LiveSubscriber subscriber(address(), UntilNative("150"), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  streams().Drain({ErrorWithReason(absl::StatusCode::kUnavailable, reason::kServerDraining, "")});
  ASSERT_TRUE(subscriber.ReadToEnd(kDeadline));
  EXPECT_EQ(Last(stream, Record::kClosing)->closing().reason(), "SERVER_DRAINING");
  EXPECT_EQ(subscriber.end().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(BoundedReadTest, AFinishedSourceProvesMoreThanItsHead) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  // A transaction whose commit record begins at 115 ends behind the bound: the head stays there.
  AppendIdle(115);
  RecordedStream stream("finished");
  LiveSubscriber subscriber(address(), UntilNative("120"), &stream);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
  feed().tail().Publish({}, At(115), At(120));
  ExpectFinished(subscriber, stream, {110});
  EXPECT_EQ(Last(stream, Record::kClosing)->closing().cursor(), feed().Cursor(At(115)));
  feed().bounds().Finish(At(120));
  ExpectRead(UntilNow(), {110});
}

// proves S02, S03, S29, S33
TEST_F(BoundedReadTest, RefusesBoundsThatMakeNoSense) {
  MakeSnapshot({1, 2});
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2})});
  Fold();
  EXPECT_EQ(Refusal(UntilNative("12x")), "3 REQUEST_INVALID");
  EXPECT_EQ(Refusal(UntilNative("99")), "11 BOUND_BEFORE_START");
  v1::SubscribeRequest request = RequestFrom(110);
  request.mutable_until()->set_native_position("109");
  EXPECT_EQ(Refusal(request), "11 BOUND_BEFORE_START");
  request.mutable_until()->set_cursor(feed().Cursor(At(105)));
  EXPECT_EQ(Refusal(request), "11 BOUND_BEFORE_START");
  *request.mutable_until()->mutable_time() = ToTimestamp(TimeOf(109));
  EXPECT_EQ(Refusal(request), "11 BOUND_BEFORE_START");
  request.mutable_until()->set_cursor("no cursor!");
  EXPECT_EQ(Refusal(request), "3 CURSOR_MALFORMED");
  request.mutable_until()->mutable_time()->set_nanos(-1);
  EXPECT_EQ(Refusal(request), "3 REQUEST_INVALID");
  // The rows are those of 120.
  request = Request();
  request.mutable_until()->set_native_position("119");
  EXPECT_EQ(Refusal(request), "11 BOUND_BEFORE_SNAPSHOT");
  *request.mutable_until()->mutable_time() = ToTimestamp(TimeOf(119));
  EXPECT_EQ(Refusal(request), "11 BOUND_BEFORE_SNAPSHOT");
  request.mutable_until()->set_native_position("120");
  ExpectRead(request, {});

  source().SetBounded(ErrorWithReason(absl::StatusCode::kUnimplemented, "FEATURE_UNSUPPORTED", ""));
  EXPECT_EQ(Refusal(request), "12 FEATURE_UNSUPPORTED");
  EXPECT_EQ(Refusal(UntilNow()), "12 FEATURE_UNSUPPORTED");
}

// proves S01
TEST_F(BoundedReadTest, NoBoundIsNoBoundHoweverItIsSaid) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  v1::SubscribeRequest none = Earliest();
  none.mutable_until()->mutable_none();
  for (const v1::SubscribeRequest& request : {Earliest(), none}) {
    RecordedStream stream("unbounded");
    LiveSubscriber subscriber(address(), request, &stream);
    subscriber.Connect();
    ASSERT_TRUE(subscriber.ReadUntilLive(kDeadline));
    EXPECT_EQ(Last(stream, Record::kBound), nullptr);
    EXPECT_FALSE(feed().bounds().Look(absl::Now(), At(0)).prove);
    EXPECT_EQ(Last(stream, Record::kClosing), nullptr);
  }
}

class BoundedPageTest : public BoundedReadTest {
 protected:
  v1::ReadResponse Read(const v1::ReadRequest& request) {
    grpc::ClientContext context;
    v1::ReadResponse response;
    const grpc::Status status = stub().Read(&context, request, &response);
    EXPECT_TRUE(status.ok()) << ReasonIn(status) << ": " << status.error_message();
    return response;
  }
  // All pages up to the last; they must be as many.
  std::vector<uint64_t> ReadAll(v1::ReadRequest request, int pages) {
    std::vector<uint64_t> numbers;
    for (int page = 1;; ++page) {
      const v1::ReadResponse response = Read(request);
      for (const auto& transaction : response.transactions()) {
        numbers.push_back(Position::FromText(transaction.position())->engine_low());
      }
      if (response.has_bound()) {
        request.mutable_until()->set_native_position(response.bound().native_position());
      }
      request.set_cursor(response.cursor());
      if (response.finished()) {
        EXPECT_EQ(page, pages);
        return numbers;
      }
      if (page > pages) {
        ADD_FAILURE() << "no end: " << response.ShortDebugString();
        return numbers;
      }
    }
  }
};

TEST_F(BoundedPageTest, PagesEndAtTheBound) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2}), SampleTransaction(130, {3})});
  v1::ReadRequest request;
  request.set_feed("shop");
  request.mutable_until()->set_native_position("120");
  EXPECT_EQ(ReadAll(request, 1), (std::vector<uint64_t>{110, 120}));
  request.set_page_bytes_max(1);
  EXPECT_EQ(ReadAll(request, 3), (std::vector<uint64_t>{110, 120}));
  request.mutable_until()->set_cursor(feed().Cursor(At(110)));
  request.set_page_bytes_max(0);
  EXPECT_EQ(ReadAll(request, 1), (std::vector<uint64_t>{110}));
  *request.mutable_until()->mutable_time() = ToTimestamp(TimeOf(125));
  EXPECT_EQ(ReadAll(request, 1), (std::vector<uint64_t>{110, 120}));
}

TEST_F(BoundedPageTest, APageIsNotTheLastBeforeThatIsProved) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1})});
  v1::ReadRequest request;
  request.set_feed("shop");
  request.mutable_until()->set_native_position("150");
  v1::ReadResponse page = Read(request);
  EXPECT_TRUE(page.caught_up());
  EXPECT_FALSE(page.finished());
  request.set_cursor(page.cursor());
  request.mutable_wait()->set_seconds(20);
  std::thread reader([&] { page = Read(request); });
  EXPECT_TRUE(WaitUntil([&] { return feed().bounds().Look(absl::Now(), At(110)).prove == At(150); },
                        kDeadline));
  AppendIdle(160);
  reader.join();
  EXPECT_EQ(page.transactions_size(), 0);
  EXPECT_TRUE(page.finished());
  EXPECT_EQ(page.cursor(), feed().Cursor(At(150).AfterAllOrdinals()));

  request.set_until_cursor(page.cursor());
  grpc::ClientContext context;
  EXPECT_EQ(ReasonIn(stub().Read(&context, request, &page)), "REQUEST_INVALID");
}

TEST_F(BoundedPageTest, NowIsAskedForOnceAndHandedOn) {
  MakeSnapshot();
  Append({SampleTransaction(110, {1}), SampleTransaction(120, {2})});
  v1::ReadRequest request;
  request.set_feed("shop");
  request.set_page_bytes_max(1);
  request.mutable_until()->mutable_now();
  std::vector<uint64_t> numbers;
  std::thread reader([&] { numbers = ReadAll(request, 3); });
  // Even the first page waits for the answer.
  EXPECT_TRUE(Answer(125, TimeOf(1)));
  AppendIdle(125);
  reader.join();
  EXPECT_EQ(numbers, (std::vector<uint64_t>{110, 120}));
}

}  // namespace
}  // namespace tidemark
