// The C++ client and a recorded stream follow a real server through its deaths; both must have seen
// what the source says it committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "client/channel.h"
#include "client/feed_client.h"
#include "proto/value_json.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/recorded_stream.h"
#include "tests/testing/sql_oracle.h"

namespace tidemark::client {
namespace {

using namespace tidemark::testing;  // NOLINT: the tools of tests read better bare
using std::chrono::seconds;

// What the client handed over: one line per change, in order; counts finished transactions.
class Collector : public FeedHandler {
 public:
  absl::Status OnChange(const ChangeView& change) override {
    std::lock_guard lock(mutex_);
    changes_.push_back(
        fmt::format("{}/{} {}", change.position(), change.sequence(), OpText(change.op())));
    return absl::OkStatus();
  }
  absl::Status OnTransactionEnd(const v1::Transaction&) override {
    std::lock_guard lock(mutex_);
    ++transactions_;
    return absl::OkStatus();
  }
  absl::Status OnOpened(const v1::Opened&) override {
    std::lock_guard lock(mutex_);
    opened_ = true;
    return absl::OkStatus();
  }

  std::vector<std::string> changes() {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  size_t transactions() {
    std::lock_guard lock(mutex_);
    return transactions_;
  }
  bool opened() {
    std::lock_guard lock(mutex_);
    return opened_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> changes_;
  size_t transactions_ = 0;
  bool opened_ = false;
};

class FollowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    ASSERT_TRUE(postgres_->Exec("create table account (id bigint primary key, owner text)").ok());
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  void Write(int round) {
    const absl::Status done =
        postgres_->Exec(fmt::format("begin; insert into account select {0} * 100 + i, 'round {0}' "
                                    "from generate_series(1, 20) i;"
                                    "update account set owner = 'changed' where id % 7 = {0} % 7;"
                                    "update account set id = -id where id = {0} * 100 + 1;"
                                    "delete from account where id = {0} * 100 + 2; commit",
                                    round));
    ASSERT_TRUE(done.ok()) << done;
  }

  v1::SubscribeRequest Request() {
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_latest();
    request.mutable_progress_period()->set_nanos(100'000'000);
    return request;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
};

TEST_F(FollowTest, SeesWhatTheSourceCommittedOnceAndInOrderThroughDeathsOfTheServer) {
  auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  RecordedStream recording("follow");
  LiveSubscriber subscriber(tidemark_->address(), Request(), &recording);
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadUntil([&] { return !recording.resume_cursor().empty(); }, seconds(30)))
      << tidemark_->Diagnostics();

  Collector collector;
  FeedClientOptions options;
  options.request = Request();
  ChannelOptions channel_options;
  channel_options.server = tidemark_->address();
  FeedClient client(*MakeChannel(channel_options), options);
  absl::Status client_end;
  std::thread client_thread([&] { client_end = client.Run(collector); });
  EXPECT_TRUE(WaitUntil([&] { return collector.opened(); }, seconds(30)));

  for (int round = 1; round <= 30; ++round) {
    Write(round);
    if (round % 10 != 0) continue;
    tidemark_->Kill9();
    Write(round + 1000);
    const absl::Status started = tidemark_->Start();
    EXPECT_TRUE(started.ok()) << started;
  }
  const auto transactions = (*oracle)->Transactions();
  EXPECT_TRUE(transactions.ok()) << transactions.status();
  EXPECT_TRUE(subscriber.FollowUntil(
      [&] { return recording.finished_transactions() >= transactions->size(); }, seconds(60)))
      << tidemark_->Diagnostics();
  EXPECT_TRUE(
      WaitUntil([&] { return collector.transactions() >= transactions->size(); }, seconds(60)));
  client.Stop();
  client_thread.join();
  EXPECT_TRUE(client_end.ok()) << client_end;

  const absl::Status complete = CheckComplete(recording, *transactions);
  EXPECT_TRUE(complete.ok()) << complete;
  std::vector<std::string> recorded;
  const auto seen = SeenTransactions(recording);
  ASSERT_TRUE(seen.ok()) << seen.status();
  for (const RecordedTransaction& transaction : *seen) {
    for (const RecordedChange& change : transaction.changes) {
      recorded.push_back(fmt::format("{}/{} {}", change.position, change.sequence, change.op));
    }
  }
  EXPECT_EQ(collector.changes(), recorded);

  const absl::Status resumable =
      CheckResumable(recording, [&](const std::string& cursor) -> absl::StatusOr<std::string> {
        RecordedStream resumed("resumed");
        v1::SubscribeRequest request = Request();
        request.mutable_start()->set_cursor(cursor);
        LiveSubscriber reader(tidemark_->address(), request, &resumed);
        reader.Connect();
        const auto read = reader.ReadUntil(
            [&] { return reader.is_live() || resumed.finished_transactions() > 0; }, seconds(30));
        if (!read) return absl::InternalError(read.message());
        const auto first = SeenTransactions(resumed);
        if (!first.ok()) return first.status();
        return first->empty() ? std::string() : first->front().position;
      });
  EXPECT_TRUE(resumable.ok()) << resumable;
}

TEST_F(FollowTest, RowsAndLogFoldToTheTable) {
  for (int round = 1; round <= 5; ++round) Write(round);
  RecordedStream recording("fold");
  v1::SubscribeRequest request = Request();
  request.mutable_start()->mutable_snapshot();
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  subscriber.Connect();
  ASSERT_TRUE(
      subscriber.ReadUntil([&] { return !recording.resume_cursor().empty(); }, seconds(30)));
  for (int round = 6; round <= 10; ++round) Write(round);
  const auto rows = postgres_->Query("select id, owner from account");
  ASSERT_TRUE(rows.ok()) << rows.status();
  std::map<std::string, Columns> expected;
  for (const auto& row : rows->rows) {
    const Columns columns = {{"id", row[0]}, {"owner", row[1]}};
    expected[DescribeColumns({{"id", row[0]}})] = columns;
  }
  absl::StatusOr<FoldedRows> folded;
  EXPECT_TRUE(subscriber.ReadUntil(
      [&] {
        folded = Fold(recording);
        return folded.ok() && (*folded)["public.account"] == expected;
      },
      seconds(30)))
      << tidemark_->Diagnostics();
}

}  // namespace
}  // namespace tidemark::client
