// What lies below the bound is read again, told once, and counted where it came late; what lies
// above the fence waits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PollWindowTest : public PollFixture {
 protected:
  void MakeItems() {
    Exec({"create table item (id bigint primary key, at timestamptz not null, v bigint)",
          "create index on item (at, id)",
          "insert into item select i, now() - i * interval '1 minute', 0 from generate_series(1, "
          "20) i"});
  }
  std::unique_ptr<PgSession> Session() {
    auto session = postgres_->Connect();
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }
  static constexpr char kItem[] = "public.item";
};

// proves A03, A06, A25
TEST_F(PollWindowTest, ARowThatCommitsLateIsToldAndCounted) {
  MakeItems();
  // Else it may not see who is open.
  Exec({"grant pg_read_all_stats to poller"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"overlap: 10s"}}});
  if (HasFatalFailure()) return;
  const auto slow = Session();
  ASSERT_TRUE(slow->Exec("begin; insert into item values (100, clock_timestamp(), 1)").ok());
  Exec({"insert into item values (101, clock_timestamp(), 1)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), ElementsAre("insert 101"));
  EXPECT_EQ(feed().StatusOf(kItem).late_rows(), 0u);
  EXPECT_THAT(feed().Status().poll().overlap_held_by(),
              HasSubstr(std::to_string(slow->backend_pid())))
      << "who is open is named";
  ASSERT_TRUE(slow->Exec("commit").ok());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), ElementsAre("insert 100"));
  EXPECT_EQ(feed().StatusOf(kItem).late_rows(), 1u);
  // A writer whose clock is 2 s behind.
  Exec({"insert into item select 102, max(at) - interval '2 s', 1 from item"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), ElementsAre("insert 102"));
  EXPECT_EQ(feed().StatusOf(kItem).late_rows(), 2u);
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().StatusOf(kItem).late_rows(), 2u) << "it is late once";
  EXPECT_EQ(feed().Rows(kItem), There("select * from item"));
}

// proves A19
TEST_F(PollWindowTest, ASequenceThatCommitsOutOfOrderLosesNothing) {
  Exec({"create sequence numbers cache 100",
        "create table seqd (id int primary key, n bigint not null default nextval('numbers'))",
        "create index on seqd (n, id)"});
  StartFeeds({{.tables = {"{table: public.seqd, cursor: n}"}}});
  if (HasFatalFailure()) return;
  const auto first = Session(), second = Session();
  ASSERT_TRUE(first->Exec("begin; insert into seqd values (1)").ok());
  ASSERT_TRUE(second->Exec("insert into seqd values (2)").ok());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.seqd"), ElementsAre("insert 2"));
  EXPECT_EQ(Value("select n > 100 from seqd"), "t");
  ASSERT_TRUE(first->Exec("commit").ok());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.seqd"), ElementsAre("insert 1"));
  EXPECT_EQ(feed().StatusOf("public.seqd").late_rows(), 1u);
}

// Ten idle polls, a stop, and a kill in the middle of the window; then the same with a row that
// differs at the same stamp.
// proves A08, A34, A35, A54
TEST_F(PollWindowTest, WhatIsReadAgainIsToldOnlyWhereItDiffers) {
  MakeItems();
  Exec({"update item set at = now()"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"overlap: 10m"}}});
  if (HasFatalFailure()) return;
  Exec({"insert into item select i, now(), 0 from generate_series(100, 119) i"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Told(kItem).size(), 20u);
  ASSERT_TRUE(feed().WaitForPolls(10));
  EXPECT_EQ(feed().Status().poll().last_rows_read(), 40u);
  EXPECT_EQ(feed().Status().poll().last_changes(), 0u);
  Restart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  KillAndStart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), IsEmpty());
  Exec({"update item set v = 7 where id = 105"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), ElementsAre("update 105"));
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), IsEmpty());
  EXPECT_EQ(feed().Rows(kItem), There("select * from item"));
}

// proves A44
TEST_F(PollWindowTest, ManyUpdatesOfARowBetweenTwoPollsAreOneChange) {
  MakeItems();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}}});
  if (HasFatalFailure()) return;
  const uint64_t before = feed().Status().poll().polls();
  Exec(
      {"do $$ begin for i in 1..2000 loop update item set at = clock_timestamp(), v = i where id "
       "= 3; if i % 100 = 0 then commit; end if; end loop; end $$"});
  ASSERT_TRUE(feed().Settle());
  const auto changes = feed().NewChanges(kItem);
  ASSERT_FALSE(changes.empty());
  EXPECT_LE(changes.size(), feed().Status().poll().polls() - before);
  EXPECT_EQ(changes.back().columns.at("v"), "2000");
  EXPECT_EQ(feed().Rows(kItem), There("select * from item"));
}

// What an idle poll reads is the window, and nothing else: of 20 rows, a minute apart, those of the
// last five and a half minutes; and without an overlap none, though they share the stamp of the
// bound.
// proves A07, A13
TEST_F(PollWindowTest, EveryPollReadsAgainFromTheOverlapBelowTheBound) {
  MakeItems();
  Exec(
      {"create table tie as select i::bigint as id, timestamptz '2026-01-01 00:00Z' as at from "
       "generate_series(1, 10) i",
       "alter table tie add primary key (id); alter table tie alter at set not null"});
  StartFeeds({{.name = "window",
               .tables = {"{table: public.item, cursor: at}"},
               .lines = {"overlap: 330s"}},
              {.name = "none",
               .tables = {"{table: public.tie, cursor: at}"},
               .lines = {"overlap: 0s", "allow_no_overlap: true"}}});
  if (HasFatalFailure()) return;
  PolledFeed& window = *feeds_[0];
  PolledFeed& none = *feeds_[1];
  ASSERT_TRUE(window.WaitForPolls());
  ASSERT_TRUE(none.WaitForPolls());
  EXPECT_EQ(window.Status().poll().last_rows_read(), 6u);
  EXPECT_EQ(window.Status().poll().overlap().seconds(), 330);
  EXPECT_EQ(none.Status().poll().last_rows_read(), 0u);
  EXPECT_EQ(none.StatusOf("public.tie").rows_read(), 10u) << "each row was read once";
  Exec({"insert into tie values (11, '2026-01-01 00:00Z'), (12, '2026-01-01 00:00:01Z')"});
  ASSERT_TRUE(none.Settle());
  EXPECT_THAT(none.Told("public.tie"), ElementsAre("insert 11", "insert 12"));
  EXPECT_EQ(none.StatusOf("public.tie").rows_read(), 12u);
}

// proves A33
TEST_F(PollWindowTest, ARowWaitsBelowTheFence) {
  MakeItems();
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"delay: 3s"}}});
  if (HasFatalFailure()) return;
  Exec({"insert into item values (100, clock_timestamp(), 1)"});
  ASSERT_TRUE(feed().Settle());
  const std::vector<std::string> told = feed().Told(kItem);
  const std::string waits =
      "select clock_timestamp() < at + interval '3 s' from item where id = 100";
  if (Value(waits) == "t") {
    EXPECT_THAT(told, IsEmpty());
  }
  // Of a writer whose clock is ahead: no poison, and it waits for its moment.
  Exec({"insert into item values (101, clock_timestamp() + interval '1 s', 1)"});
  const auto read = [&] { return feed().Rows(kItem).size() == 22; };
  ASSERT_TRUE(feed().subscriber().FollowUntil(read, PolledFeed::kDeadline));
  EXPECT_EQ(Value("select clock_timestamp() >= max(at) + interval '3 s' from item"), "t");
  EXPECT_EQ(feed().StatusOf(kItem).poison_rows(), 0u);
}

// proves A07
TEST_F(PollWindowTest, NoOverlapIsTakenOnlyWhereItIsAllowed) {
  MakeItems();
  WriteConfig({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"overlap: 0s"}}});
  const auto checked = tidemark_->Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_NE(checked->exit_code, 0);
  EXPECT_THAT(checked->out + checked->err, HasSubstr("allow_no_overlap"));
}

}  // namespace
}  // namespace tidemark::testing
