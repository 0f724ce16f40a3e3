// Pages of a poll: ties, keys of every kind, and one snapshot for all of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int kPageRows[] = {1, 3, 10, 50};

class PollPagesTest : public PollFixture {
 protected:
  // The same table in a feed for every size of a page.
  void StartFeedsOfAllPages() {
    std::vector<PollOptions> feeds;
    for (const int rows : kPageRows) {
      feeds.push_back({.name = fmt::format("p{}", rows),
                       .tables = {"{table: public.item, cursor: at}"},
                       .lines = {fmt::format("page_rows: {}", rows)}});
    }
    StartFeeds(feeds);
  }

  // Changes of one transaction come in the order of (at, id).
  static void ExpectOrdered(const std::vector<RecordedChange>& changes) {
    for (size_t i = 1; i < changes.size(); ++i) {
      if (changes[i].position != changes[i - 1].position) continue;
      const auto place = [](const RecordedChange& change) {
        return std::pair(change.columns.at("at").value(), std::stoll(*change.columns.at("id")));
      };
      EXPECT_LT(place(changes[i - 1]), place(changes[i])) << Describe(changes[i]);
    }
  }
};

// A commit of ties longer than three pages, whatever the page: each row once, in order, and the
// commit whole, since one poll is one transaction.
// proves A01, A04, A11, A12, A53, B138
TEST_F(PollPagesTest, TiesOfThreePagesAreToldOnceAndInOrder) {
  Exec({"create table item (id bigint primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        // Ties before the start, too.
        "insert into item select i, now() - interval '1 hour' - (i % 7) * interval '1s', i "
        "from generate_series(1, 223) i"});
  StartFeedsOfAllPages();
  if (HasFatalFailure()) return;
  for (const auto& feed : feeds_) {
    EXPECT_EQ(feed->Rows("public.item"), There("select * from item")) << feed->name();
    EXPECT_THAT(feed->Told("public.item"), IsEmpty()) << "they are rows, and no changes";
  }
  // Keys against the order of the stamps, and 32 rows for each of 5 stamps.
  Exec(
      {"insert into item select 10000 - i, now() - (i % 5) * interval '1s', i "
       "from generate_series(1, 160) i"});
  for (const auto& feed : feeds_) {
    ASSERT_TRUE(feed->Settle()) << feed->name();
    const std::vector<RecordedChange> changes = feed->NewChanges("public.item");
    EXPECT_EQ(changes.size(), 160u) << feed->name();
    if (changes.empty()) continue;
    ExpectOrdered(changes);
    EXPECT_EQ(changes.front().position, changes.back().position)
        << "one commit, seen by one snapshot";
    EXPECT_EQ(feed->Rows("public.item"), There("select * from item")) << feed->name();
  }
}

// proves A38, B138
TEST_F(PollPagesTest, ATieIsToldOnceThoughTheServerIsKilledBehindEveryPartOfIt) {
  Exec({"create table item (id bigint primary key, at timestamptz not null)",
        "create index on item (at, id)",
        "insert into item select i, '2026-01-01 00:00Z' from generate_series(1, 5) i"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}}});
  if (HasFatalFailure()) return;
  // The tie grows on both sides of the key where it was left.
  for (const int from : {100, 50, -20}) {
    Exec(
        {fmt::format("insert into item select i, '2026-01-01 00:00Z' from generate_series({}, {}) "
                     "i",
                     from, from + 9)});
    ASSERT_TRUE(feed().Settle());
    EXPECT_EQ(feed().Told("public.item").size(), 10u) << from;
    KillAndStart();
    if (HasFatalFailure()) return;
    ASSERT_TRUE(feed().Settle());
    EXPECT_THAT(feed().Told("public.item"), IsEmpty()) << from;
  }
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

// Rows move behind the place where the pages are, again and again, and a poll still tells each
// once: CheckDifferences refuses a key that one transaction tells twice, or an image that is no
// news.
// proves A24, A25
TEST_F(PollPagesTest, RowsThatMoveWhileTheyAreReadAreToldOnceAPoll) {
  Exec({"create table item (id bigint primary key, at timestamptz not null, v bigint not null)",
        "create index on item (at, id)",
        "insert into item select i, clock_timestamp(), 0 from generate_series(1, 300) i"});
  std::atomic<bool> stopping = false;
  std::thread writer([&] {
    auto session = postgres_->Connect();
    EXPECT_TRUE(session.ok()) << session.status();
    for (int i = 0; session.ok() && !stopping; ++i) {
      const absl::Status done = (*session)->Exec(fmt::format(
          "update item set at = clock_timestamp(), v = v + 1 where id = {}", 1 + i * 37 % 300));
      EXPECT_TRUE(done.ok()) << done;
    }
  });
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"}, .lines = {"page_rows: 1"}}});
  bool polled = !HasFatalFailure() && feed().WaitForPolls(8);
  stopping = true;
  writer.join();
  ASSERT_TRUE(polled);
  ASSERT_TRUE(feed().Settle());
  EXPECT_FALSE(feed().Told("public.item").empty());
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

// All with one stamp, so that every page ends within the tie and the key alone says where.
// proves A45
TEST_F(PollPagesTest, KeysOfEveryKindAreFollowedAcrossPages) {
  Exec(
      {"create collation loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
       "create table texts (k text collate \"en-x-icu\" primary key, at timestamptz not null)",
       "create table plain (k text collate \"C\" primary key, at timestamptz not null)",
       "create table loose (k text collate loose primary key, at timestamptz not null)",
       "create table uuids (k uuid primary key, at timestamptz not null)",
       "create table bytes (k bytea primary key, at timestamptz not null)",
       "create table pairs (b text collate \"en-x-icu\", a int, at timestamptz not null, "
       "primary key (a, b))",
       "create table falling (a int primary key, at timestamptz not null)",
       "create index on falling (at desc, a desc)",
       "create table chosen (n numeric(10, 2) not null unique, x text, at timestamptz not null)"});
  StartFeeds({{.tables = {"{table: public.texts, cursor: at}", "{table: public.plain, cursor: at}",
                          "{table: public.loose, cursor: at}", "{table: public.uuids, cursor: at}",
                          "{table: public.bytes, cursor: at}", "{table: public.pairs, cursor: at}",
                          "{table: public.falling, cursor: at}",
                          "{table: public.chosen, cursor: at, key: [n]}"},
               .lines = {"page_rows: 2"}}});
  if (HasFatalFailure()) return;
  const std::string keys =
      "unnest(array['a','B','é','Z','b','A','ê','ä','z','', ' ', '_','aa','É'])";
  Exec({"insert into texts select k, now() from " + keys + " k",
        "insert into plain select k, now() from " + keys + " k",
        "insert into loose select distinct on (k collate loose) k, now() from " + keys + " k",
        "insert into uuids select md5(i::text)::uuid, now() from generate_series(1, 15) i",
        "insert into bytes select decode(md5(i::text), 'hex'), now() from generate_series(1, 13) i",
        "insert into bytes values ('', now()), ('\\x00', now()), ('\\xff', now())",
        "insert into pairs select k, a, now() from " + keys + " k, generate_series(-1, 1) a",
        "insert into falling select i, now() from generate_series(1, 15) i",
        "insert into chosen select i / 4.0, 'x', now() from generate_series(-7, 7) i"});
  ASSERT_TRUE(feed().Settle());
  for (const std::string table :
       {"texts", "plain", "loose", "uuids", "bytes", "pairs", "falling", "chosen"}) {
    const std::vector<std::string> there = There("select * from " + table);
    EXPECT_EQ(feed().Told("public." + table).size(), there.size()) << table;
    EXPECT_EQ(feed().Rows("public." + table), there) << table;
  }
  EXPECT_EQ(PolledFeed::Complaints(feed().Status()), "");
}

}  // namespace
}  // namespace tidemark::testing
