// A feed that is dropped: by order, at its source first, and gone from the store; refused as a
// whole; cut short by a crash at each step.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/reason.h"
#include "server/ingest_step.h"
#include "store/store.h"
#include "tests/server/loop_fixture.h"
#include "tests/server/two_feeds.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/wait_until.h"

namespace tidemark {
namespace {

using testing::FeedFixture;
using ::testing::HasSubstr;
using testing::LiveSubscriber;
using testing::RecordedStream;
using testing::SnapshotBegins;
using testing::SnapshotEnds;
using testing::TransactionBatch;
using testing::WaitUntil;
using namespace std::chrono_literals;

absl::Status FromGrpc(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  details.ParseFromString(status.error_details());
  if (details.details_size() == 1) details.details(0).UnpackTo(&info);
  return ErrorWithReason(static_cast<absl::StatusCode>(status.error_code()), info.reason(),
                         status.error_message());
}

absl::Status Unreachable() {
  return ErrorWithReason(absl::StatusCode::kUnavailable, reason::kSourceUnreachable,
                         "no connection");
}

class DropFeedTest : public testing::TwoFeeds {
 protected:
  void MakeReady(const std::string& feed) {
    sources_[feed]->Yield(SnapshotBegins());
    sources_[feed]->Yield(SnapshotEnds(10, {1}));
    ASSERT_TRUE(WaitUntil([&] { return sources_[feed]->CountOf("confirm 10") > 0; }, 20s,
                          [&] { return server_.Log(); }));
  }
  absl::StatusOr<v1::DropFeedResponse> Drop(const std::string& feed, bool keep_slot = false) {
    grpc::ClientContext context;
    v1::DropFeedRequest request;
    request.set_feed(feed);
    request.set_keep_slot(keep_slot);
    v1::DropFeedResponse response;
    const grpc::Status status = server_.admin_stub()->DropFeed(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }
  absl::StatusOr<v1::GetStatusResponse> Status(const std::string& feed = "") {
    grpc::ClientContext context;
    v1::GetStatusRequest request;
    request.set_feed(feed);
    v1::GetStatusResponse response;
    const grpc::Status status = server_.admin_stub()->GetStatus(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }
};

// proves S26
TEST_F(DropFeedTest, EndsItsStreamsAndIsNotThereAnyMore) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  MakeReady("two");
  v1::SubscribeRequest request;
  request.set_feed("one");
  RecordedStream recording("of a feed that is dropped");
  recording.DoNotCheck();
  LiveSubscriber subscriber(server_.server().address(), request, &recording);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntilLive(20s));

  sources_["one"]->SetDrop(capture::DropOutcome{{"slot a"}, {"publication b: DROP"}});
  const auto dropped = Drop("one");
  ASSERT_TRUE(dropped.ok()) << dropped.status() << server_.Log();
  ASSERT_EQ(dropped->dropped_size(), 1);
  EXPECT_EQ(dropped->dropped(0), "slot a");
  ASSERT_EQ(dropped->left_size(), 1);
  EXPECT_EQ(dropped->left(0), "publication b: DROP");
  EXPECT_TRUE(dropped->configured());
  EXPECT_EQ(sources_["one"]->events().back(), "drop");
  ASSERT_TRUE(subscriber.ReadToEnd(20s));
  EXPECT_EQ(ReasonOf(FromGrpc(subscriber.end())), reason::kFeedDropped);

  const auto all = Status();
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->feeds_size(), 1);
  EXPECT_EQ(all->feeds(0).feed(), "two");
  const absl::Status unknown = Status("one").status();
  EXPECT_EQ(ReasonOf(unknown), reason::kFeedUnknown);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("was dropped"));
  EXPECT_EQ(ReasonOf(Drop("one").status()), reason::kFeedUnknown);
  EXPECT_EQ(ReasonOf(Drop("three").status()), reason::kFeedUnknown);
  sources_["two"]->Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntil([&] { return sources_["two"]->CountOf("confirm 20") > 0; }, 20s));

  // The configuration still names it.
  ASSERT_TRUE(server_.Stop());
  ASSERT_TRUE(server_.Start().ok());
  const auto afresh = Status("one");
  ASSERT_TRUE(afresh.ok()) << afresh.status();
  EXPECT_FALSE(afresh->feeds(0).has_head());
  EXPECT_TRUE(Status("two")->feeds(0).has_head());
}

TEST_F(DropFeedTest, ASourceThatCannotBeAskedRefusesItAndTheFeedGoesOn) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  sources_["one"]->SetDrop(Unreachable(), /*decides=*/false);
  const absl::Status refused = Drop("one").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), reason::kSourceUnreachable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--keep-slot"));
  sources_["one"]->Yield(TransactionBatch(20, {1}));
  EXPECT_TRUE(WaitUntil([&] { return sources_["one"]->CountOf("confirm 20") > 0; }, 20s,
                        [&] { return server_.Log(); }));
  ASSERT_TRUE(server_.Stop());
  ASSERT_TRUE(server_.Start().ok());
  EXPECT_TRUE(Status("one")->feeds(0).has_head());

  // It broke behind the note, which is taken back.
  sources_["one"]->SetDrop(Unreachable());
  EXPECT_EQ(ReasonOf(Drop("one").status()), reason::kSourceUnreachable);
  ASSERT_TRUE(server_.Stop());
  ASSERT_TRUE(server_.Start().ok());
  EXPECT_TRUE(Status("one")->feeds(0).has_head());

  const auto dropped = Drop("one", /*keep_slot=*/true);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(sources_["one"]->CountOf("drop"), 0u) << "the source is not asked";
}

TEST_F(DropFeedTest, AFeedThatNeedsAPersonCanBeDropped) {
  ASSERT_TRUE(server_.Start().ok());
  MakeReady("one");
  sources_["one"]->Fail(
      ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourcePrivilege, "may not"));
  ASSERT_TRUE(WaitUntil(
      [&] { return Status("one")->feeds(0).source_state() == v1::SOURCE_STATE_FAILED; }, 20s));
  const auto dropped = Drop("one");
  EXPECT_TRUE(dropped.ok()) << dropped.status();
}

TEST_F(DropFeedTest, AFeedThatNobodyConfiguresCanBeDropped) {
  {
    store::StoreOptions options;
    options.path = server_.store_dir().string();
    const auto store = store::Store::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto feed = (*store)->OpenFeed("old", "postgres");
    ASSERT_TRUE(feed.ok());
    store::AppendBatch batch;
    batch.checkpoint.emplace().mutable_postgres()->set_slot("tidemark_old");
    ASSERT_TRUE((*feed)->Append(batch).ok());
    ASSERT_TRUE((*feed)->Sync().ok());
  }
  ASSERT_TRUE(server_.Start().ok());
  EXPECT_THAT(server_.Log(), HasSubstr("a feed that the configuration does not name"));
  const absl::Status refused = Drop("old").status();
  EXPECT_EQ(ReasonOf(refused), reason::kDropRefused);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("SELECT pg_drop_replication_slot('tidemark_old')"));
  const auto dropped = Drop("old", /*keep_slot=*/true);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(dropped->left_size(), 1);
  EXPECT_FALSE(dropped->configured());
  EXPECT_EQ(ReasonOf(Drop("old", true).status()), reason::kFeedUnknown);
}

class DropCrash : public testing::LoopFixture, public ::testing::WithParamInterface<IngestStep> {};

// Behind the note, it is gone when the store is opened next.
TEST_P(DropCrash, EndsInAStoreWithoutTheFeed) {
  FeedFixture fixture;
  Prepare(fixture, {1, 2});
  const std::string identity = fixture.feed().store().record().identity();
  std::mutex mutex;
  std::optional<absl::StatusOr<v1::DropFeedResponse>> answer;
  auto runner = Run(fixture, [&](IngestStep step) {
    return step == GetParam() ? absl::AbortedError("crash") : absl::OkStatus();
  });
  fixture.feed().orders().Give({.done = [&](const absl::StatusOr<v1::DropFeedResponse>& done) {
    std::lock_guard lock(mutex);
    answer = done;
  }});
  ASSERT_TRUE(WaitUntil(
      [&] {
        std::lock_guard lock(mutex);
        return answer.has_value();
      },
      kDeadline));
  EXPECT_FALSE(answer->ok());
  End(runner);
  fixture.Reopen();
  EXPECT_NE(fixture.feed().store().record().identity(), identity);
  EXPECT_FALSE(fixture.feed().store().snapshot_whole());
}

INSTANTIATE_TEST_SUITE_P(Steps, DropCrash,
                         ::testing::Values(IngestStep::kDropNoted, IngestStep::kSourceDropped));

}  // namespace
}  // namespace tidemark
