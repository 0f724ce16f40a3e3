// Values of the cursor that are not what a poller hopes for: none, endless, of another zone, finer
// or coarser than the writes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PollCursorValuesTest : public PollFixture {};

// Of 20 rows every fifth has no cursor.
constexpr char kRowsWithNulls[] =
    "insert into {} select i, case when i % 5 <> 0 then now() - interval '1 m' end, 0 from "
    "generate_series(1, 20) i";

// proves A26, A36, A37, B142
TEST_F(PollCursorValuesTest, RowsWithoutACursorAreIncludedOrExcludedAsAsked) {
  for (const std::string table : {"included", "excluded"}) {
    Exec({fmt::format("create table {} (id int primary key, at timestamptz, v int)", table),
          fmt::format("create index on {} (at, id)", table), fmt::format(kRowsWithNulls, table)});
  }
  StartFeeds({{.tables = {"{table: public.included, cursor: at, null_cursor: include}",
                          "{table: public.excluded, cursor: at, null_cursor: exclude}"}}});
  if (HasFatalFailure()) return;
  EXPECT_EQ(feed().StatusOf("public.included").null_cursors(), 4u);
  EXPECT_EQ(feed().StatusOf("public.excluded").null_cursors(), 4u);
  EXPECT_EQ(feed().Rows("public.included"), There("select * from included"));
  EXPECT_EQ(feed().Rows("public.excluded"), There("select * from excluded where at is not null"));
  for (const std::string table : {"included", "excluded"}) {
    Exec(
        {fmt::format("insert into {0} values (21, null, 0); update {0} set v = 1 where id = 5; "
                     "update {0} set at = now() where id = 10; insert into {0} values (22, now(), "
                     "0); update {0} set at = null, v = 2 where id = 1",
                     table)});
  }
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.included"),
              UnorderedElementsAre("update 1", "update 5", "update 10", "insert 21", "insert 22"));
  EXPECT_THAT(feed().Told("public.excluded"), UnorderedElementsAre("insert 10", "insert 22"));
  EXPECT_EQ(feed().Rows("public.included"), There("select * from included"));
  EXPECT_EQ(feed().StatusOf("public.included").null_cursors(), 5u);
  EXPECT_EQ(feed().StatusOf("public.excluded").null_cursors(), 5u);
  Exec({"update included set at = now(); update excluded set at = now() where id <> 1"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Rows("public.included"), There("select * from included"));
  EXPECT_EQ(feed().Rows("public.excluded").size(), 22u);
  EXPECT_EQ(feed().StatusOf("public.included").null_cursors(), 0u);
  EXPECT_EQ(feed().StatusOf("public.excluded").null_cursors(), 1u);
}

// proves A26, A36, B142
TEST_F(PollCursorValuesTest, ARowWithoutACursorStopsItsTableUnlessToldOtherwise) {
  Exec({"create table failed (id int primary key, at timestamptz, v int)",
        fmt::format(kRowsWithNulls, "failed"),
        "create table other (id int primary key, at timestamptz not null)"});
  StartFeeds(
      {{.tables = {"{table: public.failed, cursor: at}", "{table: public.other, cursor: at}"}}});
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().WaitForComplaint("CURSOR_NULL"));
  const std::string complaint = PolledFeed::Complaints(feed().Status());
  EXPECT_THAT(complaint, HasSubstr("public.failed"));
  EXPECT_THAT(complaint, HasSubstr("4"));
  EXPECT_THAT(complaint, HasSubstr("null_cursor")) << "what to do";
  EXPECT_EQ(feed().StatusOf("public.failed").null_cursors(), 4u);
  Exec({"insert into other values (1, now())"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.other"), ElementsAre("insert 1")) << "others flow";
  // A person mends it.
  Exec({"update failed set at = now() where at is null; alter table failed alter at set not null"});
  Restart();
  if (HasFatalFailure()) return;
  const std::vector<std::string> there = There("select * from failed");
  ASSERT_TRUE(feed().subscriber().FollowUntil([&] { return feed().Rows("public.failed") == there; },
                                              PolledFeed::kDeadline))
      << feed().Status().DebugString();
  // The status follows what is stored, which the subscriber may see first.
  EXPECT_TRUE(WaitUntil([&] { return PolledFeed::Complaints(feed().Status()).empty(); },
                        PolledFeed::kDeadline,
                        [&] { return PolledFeed::Complaints(feed().Status()); }));
}

// Told and named, and what comes behind them with a stamp of today comes all the same.
// proves A42
TEST_F(PollCursorValuesTest, AStampThatIsNoMomentDoesNotMoveTheBound) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item values (1, now(), 0), (2, 'infinity', 0), (3, '-infinity', 0)",
        "create table num (id int primary key, n numeric not null)",
        "insert into num values (1, 7), (2, 'NaN')",
        "create table days (id int primary key, day date not null)",
        "insert into days values (1, now() - interval '2 days'), (2, '9999-12-31')"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}", "{table: public.num, cursor: n}",
                          "{table: public.days, cursor: day}"}}});
  if (HasFatalFailure()) return;
  for (const std::string table : {"item", "num", "days"}) {
    EXPECT_EQ(feed().Rows("public." + table), There("select * from " + table)) << table;
  }
  Exec(
      {"insert into item values (10, '9999-12-31 00:00Z', 0), (11, now(), 0), (12, now() + "
       "interval '1 day', 0); insert into num values (3, 8), (4, 'Infinity'); insert into days "
       "values (3, now() - interval '1 day')"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"),
              UnorderedElementsAre("insert 10", "insert 11", "insert 12"));
  EXPECT_THAT(feed().Told("public.num"), UnorderedElementsAre("insert 3", "insert 4"));
  EXPECT_THAT(feed().Told("public.days"), ElementsAre("insert 3"));
  const v1::PolledTableStatus item = feed().StatusOf("public.item");
  // Of -infinity a poll knows where it began.
  EXPECT_GE(item.poison_rows(), 3u);
  std::string keys;
  for (const std::string& key : item.poison_keys()) keys += key + " ";
  for (const std::string key : {"2", "10", "12"}) EXPECT_THAT(keys, HasSubstr(key));
  EXPECT_EQ(feed().StatusOf("public.num").poison_rows(), 2u);
  EXPECT_EQ(feed().StatusOf("public.days").poison_rows(), 1u);
  KillAndStart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), IsEmpty()) << "each is told once";
  // They are followed while they are poison, and mended.
  Exec({"update item set v = 1 where id = 10; update item set at = now() where id in (2, 12)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"),
              UnorderedElementsAre("update 2", "update 10", "update 12"));
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

// proves A05, A40, A41, B140
TEST_F(PollCursorValuesTest, StampsKeepTheirMicrosecondsAndTheFirstOfAllIsIncluded) {
  Exec({"create table item (id int primary key, at timestamptz not null)",
        "insert into item values (1, '1970-01-01 00:00Z'), (2, '2026-01-01 00:00:48.148758Z'), "
        "(3, '2026-01-01 00:00:48.148759Z')",
        "create table num (id int primary key, n numeric not null)",
        "insert into num values (1, 0), (2, 12345678901234567890.123456789)"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}",
                          "{table: public.num, cursor: n, overlap_values: 0}"},
               .lines = {"overlap: 0s", "allow_no_overlap: true", "page_rows: 1"}}});
  if (HasFatalFailure()) return;
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
  EXPECT_EQ(feed().Rows("public.num"), There("select * from num"));
  Restart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Status().poll().last_rows_read(), 0u) << "neither is behind itself";
  Exec(
      {"insert into item values (4, '2026-01-01 00:00:48.148760Z'), (5, '2026-01-01 "
       "00:00:48.148760Z'), (6, '2026-01-01 00:00:48.148761Z')",
       "insert into num values (3, 12345678901234567890.123456790)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("insert 4", "insert 5", "insert 6"));
  EXPECT_THAT(feed().Told("public.num"), ElementsAre("insert 3"));
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), IsEmpty());
  EXPECT_EQ(feed().StatusOf("public.item").bound(),
            Value("set timezone = 'UTC'; select max(at) from item"));
}

// The zone of the role, and of the database, are those of one run each. Stamps without a zone are
// in UTC. Without an overlap, a shift is seen as a row that is skipped or read again.
// proves A05, A39, B172
TEST_F(PollCursorValuesTest, TheZoneOfTheSessionDoesNotMatter) {
  Exec({"create table naive (id int primary key, at timestamp not null)",
        "create table aware (id int primary key, at timestamptz not null)"});
  const std::string insert =
      "insert into naive values ({0}, clock_timestamp() at time zone 'UTC'); insert into aware "
      "values ({0}, clock_timestamp())";
  Exec({fmt::format(fmt::runtime(insert), 0)});
  StartFeeds({{.tables = {"{table: public.naive, cursor: at}", "{table: public.aware, cursor: at}"},
               .lines = {"overlap: 0s", "allow_no_overlap: true"}}});
  if (HasFatalFailure()) return;
  int id = 0;
  for (const std::string zone : {"America/Bogota", "Asia/Kolkata", "Europe/Berlin", "UTC"}) {
    Exec(
        {fmt::format("alter role poller set timezone = '{0}'; alter database postgres set timezone "
                     "= '{0}'",
                     zone),
         fmt::format(fmt::runtime(insert), ++id)});
    Restart();
    if (HasFatalFailure()) return;
    Exec({fmt::format(fmt::runtime(insert), ++id)});
    ASSERT_TRUE(feed().Settle());
    for (const std::string table : {"public.naive", "public.aware"}) {
      EXPECT_THAT(feed().Told(table),
                  ElementsAre(fmt::format("insert {}", id - 1), fmt::format("insert {}", id)))
          << zone << " " << table;
    }
    ASSERT_TRUE(feed().WaitForPolls());
    EXPECT_EQ(feed().Status().poll().last_rows_read(), 0u) << zone;
  }
  EXPECT_EQ(feed().Rows("public.naive"), There("select * from naive"));
  EXPECT_EQ(feed().Rows("public.aware"), There("select * from aware"));
}

// PostgreSQL rounds: half of the stamps are in the future when they are written.
// proves A16
TEST_F(PollCursorValuesTest, WholeSecondsAndDaysLoseNothingOfWhatIsWrittenWithinThem) {
  Exec({"create table seconds (id int primary key, at timestamptz(0) not null)",
        "create table days (id int primary key, day date not null default current_date)"});
  StartFeeds(
      {{.tables = {"{table: public.seconds, cursor: at}", "{table: public.days, cursor: day}"}}});
  if (HasFatalFailure()) return;
  // A second ends in the middle of them.
  ASSERT_TRUE(WaitForSource("extract(second from clock_timestamp())::numeric % 1 > 0.8"));
  for (int id = 1; id <= 60; ++id) {
    Exec(
        {fmt::format("insert into seconds values ({0}, clock_timestamp()); insert into days values "
                     "({0})",
                     id)});
    if (id % 20 == 0) {
      ASSERT_TRUE(feed().WaitForPolls(1));
    }
  }
  ASSERT_TRUE(WaitForSource("clock_timestamp() > (select max(at) from seconds)"));
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Told("public.seconds").size(), 60u);
  EXPECT_EQ(feed().Told("public.days").size(), 60u);
  EXPECT_EQ(feed().Rows("public.seconds"), There("select * from seconds"));
  EXPECT_EQ(feed().Rows("public.days"), There("select * from days"));
}

}  // namespace
}  // namespace tidemark::testing
