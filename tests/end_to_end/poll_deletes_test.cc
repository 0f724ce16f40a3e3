// Deletes: by a column, by a table of tombstones, and those that no cursor can see.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PollDeletesTest : public PollFixture {
 protected:
  // item, and a table that a trigger fills with the keys of deleted rows, both stamped by `clock`.
  void MakeTombstones(const std::string& clock) {
    Exec({"create table item (id int primary key, at timestamptz not null, v int)",
          "create table gone (row_id int, at timestamptz not null, n bigserial primary key)",
          "create index on item (at, id); create index on gone (at, row_id)",
          fmt::format("create function bury() returns trigger language plpgsql as $$ begin insert "
                      "into gone values (old.id, {}); return old; end $$",
                      clock),
          "create trigger bury after delete on item for each row execute function bury()",
          "insert into item select i, now() - interval '1 m', 0 from generate_series(1, 9) i"});
  }
  static PollOptions Tombstones() {
    return {.tables = {"{table: public.item, cursor: at, tombstones: {table: public.gone, cursor: "
                       "at, key: [row_id]}}"}};
  }
};

// proves A22, A50, B170
TEST_F(PollDeletesTest, AMarkedRowIsDeletedOnceAndComesBackUnmarked) {
  Exec({"create table stamped (id int primary key, at timestamptz not null, gone_at timestamptz)",
        "create table flagged (id int primary key, at timestamptz not null, gone boolean)",
        "insert into stamped select i, now(), case when i = 9 then now() end from "
        "generate_series(1, "
        "9) i",
        "insert into flagged select i, now(), case when i = 9 then true when i = 8 then null else "
        "false end from generate_series(1, 9) i"});
  StartFeeds({{.tables = {"{table: public.stamped, cursor: at, deleted: gone_at}",
                          "{table: public.flagged, cursor: at, deleted: gone}"}}});
  if (HasFatalFailure()) return;
  const auto expect_state = [&] {
    EXPECT_EQ(feed().Rows("public.stamped"), There("select * from stamped where gone_at is null"));
    EXPECT_EQ(feed().Rows("public.flagged"),
              There("select id, at, gone::text from flagged where gone is not true"));
  };
  expect_state();
  // The subscriber is away while it happens, and the server ends in between.
  feed().subscriber().Disconnect();
  Exec({"update stamped set at = now(), gone_at = now() where id = 1",
        "update flagged set at = now(), gone = true where id in (1, 8)"});
  ASSERT_TRUE(feed().WaitForPolls());
  KillAndStart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  const std::vector<RecordedChange> changes = feed().NewChanges("public.stamped");
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].op, "delete");
  EXPECT_EQ(DescribeColumns(changes[0].key), "id='1'");
  EXPECT_THAT(feed().Told("public.flagged"), UnorderedElementsAre("delete 1", "delete 8"));
  expect_state();
  // It is touched, though it is gone; another one comes and goes between two polls.
  Exec({"update stamped set at = now() where id in (1, 9)",
        "insert into stamped values (10, now(), now())"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.stamped"), IsEmpty());
  Exec({"update stamped set at = now(), gone_at = null where id in (1, 9)",
        "update flagged set at = now(), gone = false where id in (1, 9)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.stamped"), UnorderedElementsAre("insert 1", "insert 9"));
  EXPECT_THAT(feed().Told("public.flagged"), UnorderedElementsAre("insert 1", "insert 9"));
  expect_state();
}

// What no cursor shows is not told, is said of the feed, and is found by a comparison of all keys.
// proves A02, A22, B170
TEST_F(PollDeletesTest, ARemovedRowIsToldByAScanOfAllKeysAlone) {
  Exec({"create table item (id int primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item select i, now() - i * interval '1 s', 0 from generate_series(1, 100) i"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {"key_scan: {rows_per_second: 100000}"}}});
  if (HasFatalFailure()) return;
  Exec({"delete from item where id in (7, 77, 100)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), IsEmpty());
  const v1::DescribeFeedResponse described = feed().Describe();
  EXPECT_EQ(described.completeness(), v1::COMPLETENESS_CLASS_WINDOW_BOUNDED);
  std::string notes;
  for (const auto& table : described.tables()) {
    for (const std::string& note : table.notes()) notes += note + "\n";
  }
  for (const std::string word : {"delete", "update"}) {
    EXPECT_NE(notes.find(word), std::string::npos) << word << " is not in: " << notes;
  }
  ASSERT_TRUE(feed().Scan("public.item"));
  EXPECT_THAT(feed().Told("public.item"),
              UnorderedElementsAre("delete 7", "delete 77", "delete 100"));
  const v1::KeyScanStatus scan = feed().StatusOf("public.item").scan();
  EXPECT_EQ(scan.extra(), 3u);
  EXPECT_EQ(scan.missing() + scan.different(), 0u);
  EXPECT_EQ(scan.rows_read(), 97u);
  ASSERT_TRUE(feed().Scan("public.item"));
  EXPECT_THAT(feed().Told("public.item"), IsEmpty());
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

// proves A23, A51, B170
TEST_F(PollDeletesTest, TombstonesAreDeletesInTheOrderOfTheirStamps) {
  MakeTombstones("clock_timestamp()");
  StartFeeds({Tombstones()});
  if (HasFatalFailure()) return;
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
  Exec({"begin", "insert into item values (20, clock_timestamp(), 1)",
        "delete from item where id = 5",
        "update item set at = clock_timestamp(), v = 1 where id = 1",
        "delete from item where id = 3", "insert into item values (10, clock_timestamp(), 1)",
        // Gone and back.
        "delete from item where id = 7", "insert into item values (7, clock_timestamp(), 2)",
        // Never seen.
        "insert into item values (99, clock_timestamp(), 1)", "delete from item where id = 99",
        "commit"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("insert 20", "delete 5", "update 1",
                                                      "delete 3", "insert 10", "update 7"));
  KillAndStart();
  if (HasFatalFailure()) return;
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), IsEmpty()) << "a tombstone is told once";
  Exec({"insert into item values (5, clock_timestamp(), 3)"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("insert 5"));
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

// All statements of a transaction have one now().
// proves A23, A51
TEST_F(PollDeletesTest, ARowThatIsThereIsThereThoughItsTombstoneHasTheSameStamp) {
  MakeTombstones("now()");
  StartFeeds({Tombstones()});
  if (HasFatalFailure()) return;
  Exec({"begin", "delete from item where id = 4", "insert into item values (4, now(), 5)",
        "delete from item where id = 6", "commit"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), UnorderedElementsAre("update 4", "delete 6"));
  // A tombstone that commits late.
  auto slow = postgres_->Connect();
  ASSERT_TRUE(slow.ok());
  ASSERT_TRUE((*slow)->Exec("begin; delete from item where id = 8").ok());
  Exec({"insert into item values (30, now(), 0); delete from item where id = 9"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), UnorderedElementsAre("insert 30", "delete 9"));
  ASSERT_TRUE((*slow)->Exec("commit").ok());
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told("public.item"), ElementsAre("delete 8"));
  EXPECT_EQ(feed().Rows("public.item"), There("select * from item"));
}

}  // namespace
}  // namespace tidemark::testing
