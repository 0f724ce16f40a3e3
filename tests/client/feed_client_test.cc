// The reconnect logic, against a server that plays scripts.
#include "client/feed_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/reason.h"
#include "proto/reason.h"
#include "tests/client/recording_handler.h"
#include "tests/client/scripted_server.h"
#include "tests/testing/written_records.h"

namespace tidemark::client {
namespace {

using namespace tidemark::testing;  // NOLINT: records read better bare
using ::testing::ElementsAre;
using ::testing::Ge;

FeedClientOptions Options() {
  FeedClientOptions options;
  options.request.set_feed("main");
  options.request.mutable_start()->mutable_latest();
  options.backoff.first_wait = absl::Milliseconds(2);
  options.backoff.longest_wait = absl::Milliseconds(10);
  options.opening_timeout = absl::Seconds(10);
  return options;
}

v1::SubscribeResponse ClosingRecord(const std::string& reason, int64_t retry_after_ms) {
  v1::SubscribeResponse record;
  record.mutable_closing()->set_reason(reason);
  record.mutable_closing()->mutable_retry_after()->set_nanos(
      static_cast<int32_t>(retry_after_ms * 1'000'000));
  return record;
}

TEST(FeedClientTest, ResumesBehindTheLastHandledCursor) {
  const grpc::Status lost = StatusWithReason(grpc::StatusCode::UNAVAILABLE, "SERVER_DRAINING");
  ScriptedServer server({
      {{OpenedRecord("cursor-5"), SchemaRecord(), BatchRecord({InsertTransaction(10, 1)})},
       false,
       lost},
      {{OpenedRecord("cursor-10"), ProgressRecord("cursor-15")}, false, lost},
      {{OpenedRecord("cursor-15"), SchemaRecord(), BatchRecord({InsertTransaction(20, 2)})},
       false,
       grpc::Status::OK},
  });
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  EXPECT_TRUE(client.Run(handler).ok());
  EXPECT_THAT(handler.calls,
              ElementsAre("opened", "begin 10", "10/0 insert 1 \"Ann\"", "end 10 cursor-10",
                          "disconnected", "opened", "progress cursor-15", "disconnected", "opened",
                          "begin 20", "20/0 insert 2 \"Ann\"", "end 20 cursor-20"));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_TRUE(requests[0].start().has_latest());
  EXPECT_EQ(requests[1].start().cursor(), "cursor-10");
  EXPECT_EQ(requests[2].start().cursor(), "cursor-15");
}

// proves S23, S50
TEST(FeedClientTest, KeepsTheBoundThatWasLookedUpOnce) {
  v1::SubscribeResponse bound;
  bound.mutable_bound()->set_position(PositionText(50));
  bound.mutable_bound()->set_native_position("0/32");
  const grpc::Status lost = StatusWithReason(grpc::StatusCode::UNAVAILABLE, "SERVER_DRAINING");
  ScriptedServer server({
      {{OpenedRecord("cursor-5"), bound}, false, lost},
      {{OpenedRecord("cursor-5"), bound, ClosingRecord("FINISHED", 0)}, false, grpc::Status::OK},
  });
  FeedClientOptions options = Options();
  options.request.mutable_until()->mutable_now();
  RecordingHandler handler;
  FeedClient client(server.channel(), options);
  EXPECT_TRUE(client.Run(handler).ok());
  EXPECT_THAT(handler.calls,
              ElementsAre("opened", "bound 0/32", "disconnected", "opened", "closing FINISHED"));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].until().has_now());
  EXPECT_EQ(requests[1].until().native_position(), "0/32");
}

TEST(FeedClientTest, ResumesAtTheResolvedStartWhenNothingCameYet) {
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "lost");
  ScriptedServer server({{{OpenedRecord("cursor-5")}, false, lost}, {{}, false, lost}, {}});
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  EXPECT_TRUE(client.Run(handler).ok());
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].start().cursor(), "cursor-5");
  EXPECT_EQ(requests[2].start().cursor(), "cursor-5");
}

TEST(FeedClientTest, StopsAtAnErrorThatDoesNotPass) {
  ScriptedServer server(
      {{{}, false, StatusWithReason(grpc::StatusCode::OUT_OF_RANGE, "CURSOR_EXPIRED")}});
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  const absl::Status end = client.Run(handler);
  EXPECT_EQ(ReasonOf(end), "CURSOR_EXPIRED") << end;
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_TRUE(handler.calls.empty());
}

TEST(FeedClientTest, EndsAtTheFirstBreakWhenToldNotToRetry) {
  ScriptedServer server(
      {{{OpenedRecord("cursor-5")}, false, grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost")}});
  RecordingHandler handler;
  FeedClientOptions options = Options();
  options.retries = false;
  FeedClient client(server.channel(), options);
  EXPECT_EQ(ReasonOf(client.Run(handler)), reason::kServerUnreachable);
}

TEST(FeedClientTest, TakesASilentStreamForDeadAndConnectsAgain) {
  v1::SubscribeResponse opened = OpenedRecord("cursor-5");
  opened.mutable_opened()->mutable_longest_silence()->set_seconds(0);
  opened.mutable_opened()->mutable_longest_silence()->set_nanos(100'000'000);
  ScriptedServer server({{{opened}, true, {}}, {{OpenedRecord("cursor-5")}, false, {}}});
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  EXPECT_TRUE(client.Run(handler).ok());
  EXPECT_THAT(handler.calls, ElementsAre("opened", "disconnected", "opened"));
}

TEST(FeedClientTest, GivesAServerThatNeverOpensTheStreamUp) {
  ScriptedServer server({{{}, true, {}}});
  RecordingHandler handler;
  FeedClientOptions options = Options();
  options.opening_timeout = absl::Milliseconds(100);
  options.retries = false;
  FeedClient client(server.channel(), options);
  EXPECT_EQ(ReasonOf(client.Run(handler)), reason::kServerSilent);
}

TEST(FeedClientTest, WaitsAsLongAsTheServerAsks) {
  const grpc::Status draining = StatusWithReason(grpc::StatusCode::UNAVAILABLE, "SERVER_DRAINING");
  ScriptedServer server(
      {{{OpenedRecord("cursor-5"), ClosingRecord("SERVER_DRAINING", 50)}, false, draining}, {}});
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  EXPECT_TRUE(client.Run(handler).ok());
  EXPECT_THAT(handler.waits, ElementsAre(Ge(absl::Milliseconds(50))));
}

TEST(FeedClientTest, EndsWithTheHandlersError) {
  ScriptedServer server({{{OpenedRecord("cursor-5")}, true, {}}});
  RecordingHandler handler;
  handler.hook = [](const std::string&) { return absl::UnavailableError("mine"); };
  FeedClient client(server.channel(), Options());
  EXPECT_EQ(client.Run(handler).message(), "mine");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(FeedClientTest, StopEndsAWaitingStreamAndAWaitingRetry) {
  ScriptedServer server({{{OpenedRecord("cursor-5")}, true, {}}});
  RecordingHandler handler;
  FeedClient client(server.channel(), Options());
  handler.hook = [&](const std::string&) {
    client.Stop();
    return absl::OkStatus();
  };
  EXPECT_TRUE(client.Run(handler).ok());

  FeedClientOptions options = Options();
  options.backoff.first_wait = options.backoff.longest_wait = absl::Hours(1);
  const auto nobody = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  FeedClient lonely(nobody, options);
  RecordingHandler waiting;
  waiting.hook = [&](const std::string& call) {
    EXPECT_EQ(call, "disconnected");
    lonely.Stop();
    return absl::OkStatus();
  };
  EXPECT_TRUE(lonely.Run(waiting).ok());
}

}  // namespace
}  // namespace tidemark::client
