// A polling server dies at each step between a page, the append and the checkpoint, and the next
// one goes on as if nothing had been.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

// As a shell says it: SIGKILL.
constexpr int kKilled = 137;

class PollCrashTest : public PollFixture {
 protected:
  void Commit() {
    Exec({fmt::format("insert into item select {0} + i, clock_timestamp(), {0} from "
                      "generate_series(1, 10) i",
                      rows_),
          fmt::format("update item set at = clock_timestamp(), v = {0} where id <= 10", rows_)});
    rows_ += 10;
  }
  int rows_ = 0;
};

// A row's (key, position, sequence) comes once, over all streams and servers: RecordedStream. That
// none is told anew is for the changes themselves to say.
// proves A31, A32, A34, A38
TEST_F(PollCrashTest, DiesAtEveryStepAndGoesOnWithoutLossOrRepeat) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)"});
  Commit();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}}});
  if (HasFatalFailure()) return;
  for (const std::string step : {"read", "appended", "published", "synced", "confirmed"}) {
    ASSERT_EQ(tidemark_->Stop().value_or(-1), 0) << tidemark_->Diagnostics();
    Launch({"--crash-at", step + ":3"});
    ASSERT_TRUE(WaitUntil(
        [&] {
          Commit();
          return HasFatalFailure() || !tidemark_->process().IsRunning();
        },
        seconds(30), [&] { return step + ": " + tidemark_->Diagnostics(); }));
    EXPECT_EQ(tidemark_->process().WaitForExit(seconds(10)).value_or(-1), kKilled) << step;
    Commit();  // while nobody polls
    Start();
    if (HasFatalFailure()) return;
    Commit();
    ASSERT_TRUE(feed().Settle()) << step << ": " << tidemark_->Diagnostics();
    EXPECT_EQ(feed().Rows("public.item"), There("select * from item")) << step;
  }
  std::set<std::string> told;
  for (const RecordedChange& change : feed().NewChanges("public.item")) {
    EXPECT_TRUE(told.insert(DescribeColumns(change.columns)).second)
        << "told again: " << Describe(change);
  }
  EXPECT_GE(told.size(), static_cast<size_t>(rows_ - 10));
  tidemark_->Kill9();
  const absl::Status verified = tidemark_->VerifyStore();
  EXPECT_TRUE(verified.ok()) << verified;
  Start();
}

// The very first poll is the snapshot: until it is whole there are no rows, and then all of them.
// proves A31
TEST_F(PollCrashTest, AFirstPollThatIsKilledBeginsAgain) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item select i, now() - interval '1 h', 0 from generate_series(1, 3000) i"});
  WriteConfig({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"page_rows: 2"}}});
  for (int kill = 1; kill <= 3; ++kill) {
    Launch();
    // A page of it was asked for.
    ASSERT_TRUE(WaitUntil(
        [&] {
          return Value("select count(*) from pg_stat_activity where usename = 'poller'") != "0";
        },
        seconds(30), [&] { return tidemark_->Diagnostics(); }));
    tidemark_->Kill9();
    Exec({fmt::format("insert into item values ({}, now(), 1)", 10'000 + kill)});
  }
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"page_rows: 2"}}});
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
  EXPECT_TRUE(feed().Told("public.item").size() <= 3u);
}

// The source goes away in the middle: retried, and nothing is lost or told again.
// proves A08
TEST_F(PollCrashTest, ASourceThatIsGoneIsTriedAgain) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)"});
  Commit();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}}});
  if (HasFatalFailure()) return;
  Commit();
  Exec({"select pg_terminate_backend(pid) from pg_stat_activity where usename = 'poller'"});
  Commit();
  ASSERT_TRUE(feed().Settle());
  postgres_->Kill9();
  ASSERT_TRUE(feed().WaitForComplaint("SOURCE_UNREACHABLE"));
  ASSERT_TRUE(postgres_->Start().ok());
  Commit();
  WaitUntilPolling("main");
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

}  // namespace
}  // namespace tidemark::testing
