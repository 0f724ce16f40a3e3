#include "server/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"
#include "server/limits.h"
#include "tests/server/scripted_source.h"
#include "tests/server/two_feeds.h"
#include "tests/testing/test_server.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using testing::ScriptedSource;
using testing::SnapshotBegins;
using testing::SnapshotEnds;
using testing::TestServer;
using testing::TransactionBatch;
using testing::WaitUntil;
using namespace std::chrono_literals;

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() != 1) return "";
  return details.details(0).UnpackTo(&info) ? info.reason() : "";
}

class ServerTest : public testing::TwoFeeds {
 protected:
  void MakeReady(const std::string& feed) {
    sources_[feed]->Yield(SnapshotBegins());
    sources_[feed]->Yield(SnapshotEnds(10, {1}));
    EXPECT_TRUE(WaitUntil([&] { return sources_[feed]->CountOf("confirm 10") > 0; }, 20s,
                          [&] { return server_.Log(); }));
  }

  v1::GetStatusResponse Status(const std::string& feed = "") {
    grpc::ClientContext context;
    v1::GetStatusRequest request;
    v1::GetStatusResponse response;
    request.set_feed(feed);
    const auto status = server_.admin_stub()->GetStatus(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  // Standard gRPC health. Debian has no stubs of it, so the two messages are written by hand: field
  // 1 of the request is the name, field 1 of the reply the state.
  std::string Health(const std::string& service) {
    std::string request;
    if (!service.empty())
      request = std::string("\x0A") + static_cast<char>(service.size()) + service;
    const grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    grpc::Status status;
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(server_.channel());
    const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", sent, &queue);
    call->StartCall();
    call->Finish(&received, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) return status.error_message();
    grpc::Slice reply;
    if (!received.DumpToSingleSlice(&reply).ok() || reply.size() != 2) return "no state";
    return reply.begin()[1] == 1 ? "SERVING" : "NOT_SERVING";
  }
};

TEST_F(ServerTest, StatusDescribesEveryFeed) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  sources_["one"]->Yield(TransactionBatch(20, {1, 2}));
  ASSERT_TRUE(WaitUntil([&] { return sources_["one"]->CountOf("confirm 20") > 0; }, 20s));
  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.feeds_size(), 2);
  EXPECT_EQ(status.feeds(0).feed(), "one");
  EXPECT_EQ(status.feeds(0).engine(), "postgres");
  EXPECT_EQ(status.feeds(0).generation(), 1u);
  EXPECT_EQ(status.feeds(0).head().native_position(), "20");
  EXPECT_EQ(status.feeds(0).changes_captured(), 2u);
  EXPECT_GT(status.feeds(0).log_bytes(), 0u);
  EXPECT_EQ(status.feeds(0).log_transactions(), 1u);
  EXPECT_FALSE(status.feeds(1).has_head());
  EXPECT_EQ(status.server_version(), kServerVersion);
  EXPECT_GT(status.store().disk_free_bytes(), 0u);
  EXPECT_FALSE(status.draining());
  EXPECT_EQ(Status("two").feeds_size(), 1);
}

// proves Done 14 of the main job: nobody waits for a stuck source
TEST_F(ServerTest, AStuckSourceHoldsUpNeitherStatusNorAnotherFeed) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  MakeReady("two");
  sources_["one"]->SetStuck(true);
  sources_["two"]->Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntil([&] { return sources_["two"]->CountOf("confirm 20") > 0; }, 20s));
  const auto stub = server_.admin_stub();
  auto fastest = 10'000ms;
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(stub->GetStatus(&context, {}, &response).ok());
    fastest = std::min(fastest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - begin));
  }
  // One of many: a busy test machine may hold up any single call.
  EXPECT_LT(fastest, 50ms);
  sources_["one"]->SetStuck(false);
}

TEST_F(ServerTest, AFailedFeedIsRedAndTheOtherGoesOn) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  MakeReady("two");
  EXPECT_TRUE(
      WaitUntil([&] { return Health("one") == "SERVING"; }, 10s, [&] { return Health("one"); }));
  sources_["one"]->Fail(ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSlotLost,
                                        "the slot is lost; recover"));
  EXPECT_TRUE(WaitUntil([&] { return Health("one") == "NOT_SERVING"; }, 10s,
                        [&] { return Health("one"); }));
  const v1::FeedStatus failed = Status("one").feeds(0);
  EXPECT_EQ(failed.source_state(), v1::SOURCE_STATE_FAILED);
  EXPECT_EQ(failed.last_error().reason(), "SLOT_LOST");
  EXPECT_FALSE(failed.last_error().retried());
  EXPECT_EQ(Health("two"), "SERVING");
  EXPECT_EQ(Health(""), "SERVING");
  EXPECT_THAT(Health("three"), HasSubstr("unknown"));
  sources_["two"]->Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntil([&] { return sources_["two"]->CountOf("confirm 20") > 0; }, 20s));
}

TEST_F(ServerTest, AnErrorOfTheStoreIsThatOfTheStoreToo) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  MakeReady("two");
  EXPECT_FALSE(Status().store().has_last_error());
  sources_["two"]->Fail(
      ErrorWithReason(absl::StatusCode::kResourceExhausted, reason::kStoreFull, "no room"));
  v1::StoreStatus store;
  ASSERT_TRUE(WaitUntil(
      [&] {
        store = Status("one").store();
        return store.has_last_error();
      },
      20s, [&] { return server_.Log(); }));
  EXPECT_EQ(store.last_error().reason(), "STORE_FULL");
  EXPECT_EQ(store.last_error().message(), "feed two: no room");
  EXPECT_TRUE(store.last_error().retried());
  // There is room again.
  EXPECT_TRUE(WaitUntil([&] { return !Status().store().has_last_error(); }, 20s));
}

TEST_F(ServerTest, AFeedThatThereIsNotIsNamedWithThoseThatThereAre) {
  ASSERT_TRUE(server_.Start().ok());
  const auto admin = server_.admin_stub();
  grpc::ClientContext context;
  v1::GetStatusRequest unknown;
  unknown.set_feed("three");
  v1::GetStatusResponse response;
  const grpc::Status missing = admin->GetStatus(&context, unknown, &response);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(missing), "FEED_UNKNOWN");
  EXPECT_THAT(missing.error_message(), HasSubstr("it has: one, two"));
}

TEST_F(ServerTest, OneStreamIsEndedByOrderThenAllAreAndCaptureGoesOn) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  const auto admin = server_.admin_stub();
  const auto feeds = server_.feed_stub();
  v1::SubscribeRequest request;
  request.set_feed("one");
  const auto end = [](auto& reader, std::string* closing) {
    v1::SubscribeResponse record;
    while (reader->Read(&record)) {
      if (record.has_closing()) *closing = record.closing().reason();
    }
    return reader->Finish();
  };
  std::string first_closing, second_closing;
  {
    grpc::ClientContext stream_context, context, again;
    auto reader = feeds->Subscribe(&stream_context, request);
    v1::SubscribeResponse record;
    ASSERT_TRUE(reader->Read(&record));
    v1::EndStreamRequest order;
    order.set_id(server_.server().streams().List("one").at(0).id);
    v1::EndStreamResponse ended;
    ASSERT_TRUE(admin->EndStream(&context, order, &ended).ok());
    const grpc::Status status = end(reader, &first_closing);
    EXPECT_EQ(first_closing, "STREAM_ENDED");
    EXPECT_EQ(ReasonOf(status), "STREAM_ENDED");
    EXPECT_EQ(ReasonOf(admin->EndStream(&again, order, &ended)), "REQUEST_INVALID");
  }
  grpc::ClientContext stream_context, context, refused;
  auto reader = feeds->Subscribe(&stream_context, request);
  v1::SubscribeResponse record;
  ASSERT_TRUE(reader->Read(&record)) << "new ones are taken";
  v1::DrainResponse drained;
  ASSERT_TRUE(admin->Drain(&context, {}, &drained).ok());
  EXPECT_EQ(ReasonOf(end(reader, &second_closing)), "SERVER_DRAINING");
  EXPECT_EQ(second_closing, "SERVER_DRAINING");
  auto late = feeds->Subscribe(&refused, request);
  EXPECT_EQ(ReasonOf(end(late, &second_closing)), "SERVER_DRAINING");
  EXPECT_TRUE(Status().draining());
  EXPECT_TRUE(WaitUntil([&] { return Health("") == "NOT_SERVING"; }, 10s));
  sources_["one"]->Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntil([&] { return sources_["one"]->CountOf("confirm 20") > 0; }, 20s));
}

TEST_F(ServerTest, ADrainClosesEveryStreamWithItsCursor) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  const auto channel = server_.channel();
  const auto stub = v1::ChangeFeed::NewStub(channel);
  grpc::ClientContext context;
  v1::SubscribeRequest request;
  request.set_feed("one");
  request.mutable_start()->mutable_latest();
  const auto stream = stub->Subscribe(&context, request);
  v1::SubscribeResponse record;
  ASSERT_TRUE(stream->Read(&record)) << stream->Finish().error_message();
  ASSERT_TRUE(record.has_opened());
  EXPECT_EQ(Status().streams(), 1u);

  std::thread stopping([&] { EXPECT_TRUE(server_.server().Stop(absl::Seconds(20))); });
  v1::SubscribeResponse last;
  while (stream->Read(&record)) last = record;
  const grpc::Status status = stream->Finish();
  stopping.join();
  ASSERT_TRUE(last.has_closing()) << last.DebugString();
  EXPECT_EQ(last.closing().reason(), "SERVER_DRAINING");
  EXPECT_FALSE(last.closing().cursor().empty());
  EXPECT_EQ(last.closing().retry_after().seconds(), 1);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "SERVER_DRAINING");
  EXPECT_THAT(server_.Log(), HasSubstr("stopped drained=true"));
}

TEST_F(ServerTest, AfterARestartEveryFeedGoesOnFromItsCheckpoint) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  EXPECT_TRUE(server_.Stop());
  ASSERT_TRUE(server_.Start().ok());
  EXPECT_TRUE(WaitUntil([&] { return sources_["one"]->CountOf("open 10") > 0; }, 20s));
  EXPECT_TRUE(Status("one").feeds(0).has_head());
}

TEST_F(ServerTest, AnAddressInUseIsRefusedBeforeASourceIsTouched) {
  ASSERT_TRUE(server_.Start().ok());
  auto config = ParseConfig(server_.ConfigText(), "test.yaml",
                            [](const std::string&) { return std::nullopt; });
  ASSERT_TRUE(config.ok());
  config->set_listen(server_.server().address());
  testing::ScratchDir other("other");
  config->mutable_store()->set_path((other / "store").string());
  config->mutable_store()->set_cursor_keys_file((other / "keys").string());
  const auto before = std::map(sources_);
  const auto second = Server::Start(*config, Options());
  EXPECT_EQ(tidemark::ReasonOf(second.status()), "LISTEN_FAILED");
  sources_ = before;
}

TEST_F(ServerTest, AStoreInUseIsRefused) {
  ASSERT_TRUE(server_.Start().ok());
  auto config = ParseConfig(server_.ConfigText(), "test.yaml",
                            [](const std::string&) { return std::nullopt; });
  ASSERT_TRUE(config.ok());
  const auto second = Server::Start(*config);
  EXPECT_EQ(tidemark::ReasonOf(second.status()), "STORE_LOCKED");
}

TEST_F(ServerTest, CertificatesThatCannotBeReadAreNamed) {
  auto config = ParseConfig(
      "tls: {certificate_file: /none.pem, key_file: /none.key}\n" + server_.ConfigText(),
      "test.yaml", [](const std::string&) { return std::nullopt; });
  ASSERT_TRUE(config.ok()) << config.status();
  const auto started = Server::Start(*config, Options());
  EXPECT_EQ(tidemark::ReasonOf(started.status()), "CONFIG_INVALID");
  EXPECT_THAT(std::string(started.status().message()),
              HasSubstr("tls.certificate_file: /none.pem cannot be read"));
  sources_.clear();
}

}  // namespace
}  // namespace tidemark
