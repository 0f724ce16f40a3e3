// Two feeds in one server, each from a database of its own. One database stops answering: the other
// feed goes on, everybody learns how both are at once, and when it answers again nothing is lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "proto/reason.h"
#include "tests/end_to_end/status_clock.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/seed.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kAnswerMax{50};
constexpr milliseconds kDeliveryMax{5000};
constexpr uint64_t kCommitsWhileStopped = 100;
constexpr char kCommit[] = "insert into item (n) select generate_series(1, 5)";

// A database with a table, what it committed by its own word, and what a subscriber got of it.
struct Side {
  explicit Side(const std::string& feed) : recording(feed) {}

  void SetUp() {
    auto created = LivePostgres::Create();
    ASSERT_TRUE(created.ok()) << created.status();
    postgres = *std::move(created);
    ASSERT_TRUE(postgres->Exec("create table item (id bigserial primary key, n int)").ok());
    auto opened = postgres->Connect();
    ASSERT_TRUE(opened.ok()) << opened.status();
    session = *std::move(opened);
  }
  void Follow(const LiveTidemark& tidemark) {
    auto made = SqlOracle::Create(postgres->conninfo(), "oracle");
    ASSERT_TRUE(made.ok()) << made.status();
    oracle = *std::move(made);
    v1::SubscribeRequest request;
    request.set_feed(recording.name());
    request.mutable_start()->mutable_earliest();
    subscriber = std::make_unique<LiveSubscriber>(tidemark.address(), request, &recording);
  }
  ::testing::AssertionResult Commit() {
    const absl::Status status = session->Exec(kCommit);
    if (status.ok()) ++commits;
    return status.ok() ? ::testing::AssertionSuccess()
                       : ::testing::AssertionFailure() << status.ToString();
  }
  ::testing::AssertionResult ReadAll() {
    return subscriber->FollowUntil([&] { return recording.finished_transactions() >= commits; },
                                   seconds(60));
  }
  bool WasToldDown() const {
    if (recording.segments().empty()) return false;
    for (const RecordedEvent& event : recording.segments().back().events) {
      if (event.record.progress().state() == v1::FEED_STATE_SOURCE_DOWN) return true;
    }
    return false;
  }
  absl::Status CheckAll() {
    const auto committed = oracle->Transactions();
    if (!committed.ok()) return committed.status();
    return CheckComplete(recording, OnlyTables(*committed, {"public.item"}));
  }

  std::unique_ptr<LivePostgres> postgres;
  std::unique_ptr<PgSession> session;
  std::unique_ptr<SqlOracle> oracle;
  RecordedStream recording;
  std::unique_ptr<LiveSubscriber> subscriber;
  uint64_t commits = 0;
};

const v1::FeedStatus& FeedOf(const v1::GetStatusResponse& status, const std::string& feed) {
  for (const v1::FeedStatus& each : status.feeds()) {
    if (each.feed() == feed) return each;
  }
  return v1::FeedStatus::default_instance();
}

// proves S56
TEST(StoppedSourceTest, HoldsUpNoOtherFeedAndNoStatusAndLosesNothing) {
  const seconds at_least(IsLong() ? 60 : 0);
  Side stopped("main");
  Side running("other");
  ASSERT_NO_FATAL_FAILURE(stopped.SetUp());
  ASSERT_NO_FATAL_FAILURE(running.SetUp());
  LiveTidemark tidemark(
      *stopped.postgres,
      {.postgres_lines = {"silence_timeout: 1s"},
       .more_feeds = {fmt::format("- {{name: other, postgres: {{host: 127.0.0.1, port: {}, "
                                  "database: postgres, user: postgres}}}}",
                                  running.postgres->port())}});
  const absl::Status started = tidemark.Start();
  ASSERT_TRUE(started.ok()) << started;
  StatusClock clock(tidemark.address());
  ASSERT_TRUE(WaitUntil(
      [&] { return FeedOf(clock.last(), "other").source_state() == v1::SOURCE_STATE_STREAMING; },
      seconds(60), [&] { return tidemark.Diagnostics(); }));
  for (Side* side : {&stopped, &running}) {
    ASSERT_NO_FATAL_FAILURE(side->Follow(tidemark));
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(side->Commit());
    ASSERT_TRUE(side->ReadAll()) << tidemark.Diagnostics();
  }

  stopped.postgres->Pause();
  const auto began = std::chrono::steady_clock::now();
  // Committed when the database goes on.
  ASSERT_TRUE(stopped.session->Send(kCommit).ok());
  const auto is_noticed = [&] {
    const v1::FeedStatus status = FeedOf(clock.last(), "main");
    return status.last_error().reason() == reason::kSourceSilent &&
           status.source_state() != v1::SOURCE_STATE_STREAMING;
  };
  const uint64_t before = running.commits;
  auto slowest = milliseconds(0);
  while (!is_noticed() || running.commits < before + kCommitsWhileStopped ||
         std::chrono::steady_clock::now() < began + at_least) {
    ASSERT_LT(std::chrono::steady_clock::now(), began + at_least + seconds(60))
        << FeedOf(clock.last(), "main").DebugString();
    const auto committed = std::chrono::steady_clock::now();
    ASSERT_TRUE(running.Commit());
    ASSERT_TRUE(running.ReadAll()) << tidemark.Diagnostics();
    slowest = std::max(slowest, std::chrono::duration_cast<milliseconds>(
                                    std::chrono::steady_clock::now() - committed));
  }
  EXPECT_LT(slowest, kDeliveryMax) << "a commit of the other feed waited";
  EXPECT_EQ(FeedOf(clock.last(), "other").source_state(), v1::SOURCE_STATE_STREAMING);
  // The stream of the stopped feed stands, and says so.
  ASSERT_TRUE(stopped.subscriber->FollowUntil([&] { return stopped.WasToldDown(); }, seconds(30)));
  EXPECT_EQ(stopped.recording.segments().size(), 1u) << "the stream was broken";
  const auto lasted =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - began);

  stopped.postgres->Resume();
  const auto late_commit = stopped.session->Wait(seconds(60));
  ASSERT_TRUE(late_commit.ok()) << late_commit.status();
  ++stopped.commits;
  for (Side* side : {&stopped, &running}) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(side->Commit());
    ASSERT_TRUE(side->ReadAll()) << tidemark.Diagnostics();
    const absl::Status complete = side->CheckAll();
    EXPECT_TRUE(complete.ok()) << side->recording.name() << ": " << complete;
  }
  clock.Stop();
  std::cout << fmt::format(
      "stopped for {} ms; {} commits of the other feed, the slowest {} ms; {}\n", lasted.count(),
      running.commits, slowest.count(), clock.Summary());
  EXPECT_GT(clock.answers(), 50u);
  EXPECT_THAT(clock.Late(kAnswerMax), ::testing::IsEmpty());

  // A database that does not answer does not keep the server from stopping either.
  stopped.subscriber->Disconnect();
  running.subscriber->Disconnect();
  stopped.postgres->Pause();
  EXPECT_EQ(tidemark.Stop().value_or(-1), 0) << tidemark.Diagnostics();
  stopped.postgres->Resume();
}

}  // namespace
}  // namespace tidemark::testing
