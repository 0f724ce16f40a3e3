// A polling server dies at each step between a page, the append and the checkpoint, and the next
// one goes on as if nothing had been.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "capture/transaction_builder.h"
#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

// As a shell says it: SIGKILL.
constexpr int kKilled = 137;
// Pages of a table that is stamped by time before those of its window: what lies outside of time,
// at both ends.
constexpr int kPagesBeforeWindow = 2;

class PollCrashTest : public PollFixture {
 protected:
  // Ten rows of one stamp, twice.
  void Commit() {
    Exec({fmt::format("insert into item select {0} + i, now(), {0} from generate_series(1, 10) i",
                      rows_),
          fmt::format("update item set at = now(), v = {0} where id <= 10", rows_)});
    rows_ += 10;
  }
  // The very same row is told once, over all servers.
  void ExpectToldOnce(size_t at_least) {
    std::set<std::string> told;
    for (const RecordedChange& change : feed().NewChanges("public.item")) {
      EXPECT_TRUE(told.insert(DescribeColumns(change.columns)).second)
          << "told again: " << Describe(change);
    }
    EXPECT_GE(told.size(), at_least);
  }
  void ExpectStoreInOrder() {
    tidemark_->Kill9();
    const absl::Status verified = tidemark_->VerifyStore();
    EXPECT_TRUE(verified.ok()) << verified;
    Start();
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
  ExpectToldOnce(static_cast<size_t>(rows_ - 10));
  ExpectStoreInOrder();
}

// What was read of a poll is nothing until all of its pages are there. Each place of a death lies
// within a tie.
// proves A31, A32, A34, A38
TEST_F(PollCrashTest, DiesBetweenTwoPagesOfAPollAndGoesOnWithoutLossOrRepeat) {
  constexpr int kPageRows = 3;
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)"});
  Commit();
  StandBetween();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {"overlap: 1h", fmt::format("page_rows: {}", kPageRows)}}});
  if (HasFatalFailure()) return;
  // Pages that were not read. What is new is on the last seven.
  for (const int unread : {1, 2, 3, 6, 9}) {
    tidemark_->Kill9();
    Commit();
    const int pages = kPagesBeforeWindow + rows_ / kPageRows + 1;
    LaunchToDieBefore(pages + 1 - unread);
    if (HasFatalFailure()) return;
    Commit();  // while nobody polls
    Start();
    if (HasFatalFailure()) return;
    Commit();
    ASSERT_TRUE(feed().Settle()) << unread << ": " << tidemark_->Diagnostics();
    EXPECT_EQ(feed().Rows("public.item"), There("select * from item")) << unread;
  }
  ExpectToldOnce(static_cast<size_t>(rows_ - 10));
  ExpectStoreInOrder();
}

// Parts of a large poll are stored before its last page is read. They are nothing without their
// end: what the next server polls is told, and no more.
// proves A31, A32
TEST_F(PollCrashTest, ALargePollThatIsKilledBetweenItsPagesIsToldOnceAndWhole) {
  constexpr int kRows = 3000;
  constexpr int kRowBytes = 2000;
  constexpr int kPageRows = 100;
  constexpr int kPagesRead = 20;
  static_assert(kPagesRead * kPageRows * kRowBytes > 3 * capture::kTransactionBytesMax);
  static_assert(kPagesRead * kPageRows < kRows);
  Exec({"create table item (id int primary key, at timestamptz not null, v text)",
        "create index on item (at, id)", "insert into item values (0, clock_timestamp(), '')"});
  StandBetween();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {fmt::format("page_rows: {}", kPageRows)}}});
  if (HasFatalFailure()) return;
  tidemark_->Kill9();
  Exec(
      {fmt::format("insert into item select i, clock_timestamp(), repeat('x', {}) from "
                   "generate_series(1, {}) i",
                   kRowBytes, kRows)});
  LaunchToDieBefore(kPagesBeforeWindow + kPagesRead + 1);
  if (HasFatalFailure()) return;
  Start();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle()) << tidemark_->Diagnostics();
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
  const std::vector<RecordedChange> changes = feed().NewChanges("public.item");
  EXPECT_EQ(changes.size(), static_cast<size_t>(kRows));
  EXPECT_TRUE(std::all_of(changes.begin(), changes.end(), [&](const RecordedChange& change) {
    return change.position == changes.front().position;
  })) << "one commit, seen by one snapshot";
  ExpectStoreInOrder();
}

// The very first poll is the snapshot: until it is whole there are no rows, and then all of them.
// proves A31
TEST_F(PollCrashTest, AFirstPollThatIsKilledBeginsAgain) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item select i, now() - interval '1 h', 0 from generate_series(1, 3000) i"});
  StandBetween();
  WriteConfig({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"page_rows: 2"}}});
  // The first, one in the middle, and the last.
  for (const int pages_read : {1, 700, 1500}) {
    LaunchToDieBefore(pages_read + 1);
    if (HasFatalFailure()) return;
    Exec({fmt::format("insert into item values ({}, now(), 1)", 10'000 + pages_read)});
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
