// What polling cannot see: found by a comparison, named by a verification; and a source that went
// back is no quiet source.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/end_to_end/poll_fixture.h"

namespace tidemark::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class PollScanTest : public PollFixture {
 protected:
  void MakeItems() {
    Exec(
        {"create table item (id bigint primary key, at timestamptz not null, v int)",
         "create index on item (at, id)",
         "insert into item select i, now() - i * interval '1 m', 0 from generate_series(1, 50) i"});
  }
  static PollOptions Items() {
    return {.tables = {"{table: public.item, cursor: at}"},
            .lines = {"overlap: 10s", "key_scan: {rows_per_second: 100000}"}};
  }
  static constexpr char kItem[] = "public.item";
};

// A row that is later than the window; a stamp that went back; a load with stamps of old; a change
// that was not stamped. The count of rows is equal all the while for two of them.
// proves A09, A17, A27, A52
TEST_F(PollScanTest, WhatIsOutsideTheWindowIsNamedByAVerificationAndToldByAScan) {
  MakeItems();
  StartFeeds({Items()});
  if (HasFatalFailure()) return;
  EXPECT_THAT(feed().Verify(kItem), IsEmpty());
  Exec({"insert into item values (100, now() - interval '1 h', 1)",
        "update item set at = at - interval '1 day', v = 1 where id = 20",
        "update item set v = 1 where id = 30",
        "insert into item select i, '2000-01-01 00:00Z', 2 from generate_series(200, 202) i",
        "delete from item where id = 40"});
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), IsEmpty()) << "none of them is promised";
  EXPECT_EQ(PolledFeed::Complaints(feed().Status()), "") << "nor a fault of the source";
  const std::vector<std::string> wrong = {R"(DIFFERENT {"id":20})", R"(DIFFERENT {"id":30})",
                                          R"(EXTRA {"id":40})",     R"(MISSING {"id":100})",
                                          R"(MISSING {"id":200})",  R"(MISSING {"id":201})",
                                          R"(MISSING {"id":202})"};
  EXPECT_THAT(feed().Verify(kItem), ::testing::UnorderedElementsAreArray(wrong));
  ASSERT_TRUE(feed().Settle());
  EXPECT_THAT(feed().Told(kItem), IsEmpty()) << "a look changes nothing";
  ASSERT_TRUE(feed().Scan(kItem));
  EXPECT_THAT(feed().Told(kItem),
              UnorderedElementsAre("update 20", "update 30", "delete 40", "insert 100",
                                   "insert 200", "insert 201", "insert 202"));
  const v1::KeyScanStatus scan = feed().StatusOf(kItem).scan();
  EXPECT_EQ(scan.missing(), 4u);
  EXPECT_EQ(scan.extra(), 1u);
  EXPECT_EQ(scan.different(), 2u);
  EXPECT_EQ(feed().Rows(kItem), There("select * from item"));
  EXPECT_THAT(feed().Verify(kItem), IsEmpty());
}

// proves A09, A31
TEST_F(PollScanTest, AScanGoesOnWhereItWasKilledAndTellsNothingTwice) {
  Exec({"create table item (id bigint primary key, at timestamptz not null, v int)",
        "create index on item (at, id)",
        "insert into item select i, '2000-01-01 00:00Z', 0 from generate_series(1, 3000) i",
        // The bound is far above the others.
        "insert into item values (0, now(), 0)"});
  StartFeeds({{.tables = {"{table: public.item, cursor: at}"},
               .lines = {"page_rows: 50", "key_scan: {rows_per_second: 1500}"}}});
  if (HasFatalFailure()) return;
  Exec({"delete from item where id % 100 = 50", "update item set v = 1 where id % 100 = 60",
        "insert into item select i, '2000-01-01 00:00Z', 3 from generate_series(3001, 3030) i"});
  ASSERT_TRUE(feed().StartSnapshot(kItem).ok());
  for (const uint64_t rows : {500u, 1800u}) {
    ASSERT_TRUE(WaitUntil([&] { return feed().StatusOf(kItem).scan().rows_read() >= rows; },
                          PolledFeed::kDeadline,
                          [&] { return feed().Status().poll().DebugString(); }));
    KillAndStart();
    if (HasFatalFailure()) return;
  }
  ASSERT_TRUE(WaitUntil(
      [&] {
        const v1::KeyScanStatus scan = feed().StatusOf(kItem).scan();
        return !scan.running() && scan.has_finished();
      },
      PolledFeed::kDeadline, [&] { return feed().Status().poll().DebugString(); }));
  ASSERT_TRUE(feed().Settle());
  EXPECT_EQ(feed().Told(kItem).size(), 90u);
  EXPECT_EQ(feed().Rows(kItem), There("select * from item"));
  const v1::KeyScanStatus scan = feed().StatusOf(kItem).scan();
  EXPECT_EQ(scan.missing(), 30u);
  EXPECT_EQ(scan.extra(), 30u);
  EXPECT_EQ(scan.different(), 30u);
}

// proves A43
TEST_F(PollScanTest, ASourceThatWentBackIsLoud) {
  MakeItems();
  Exec({"create table seqd (id bigint primary key, n bigint not null)",
        "insert into seqd select i, 1000000 + i from generate_series(1, 10) i"});
  PollOptions numbers{.name = "numbers", .tables = {"{table: public.seqd, cursor: n}"}};
  StartFeeds({Items(), numbers});
  if (HasFatalFailure()) return;
  // As an older state of the table would have it, and a sequence that begins anew.
  Exec({"delete from item where at > now() - interval '15 m'",
        "delete from seqd; insert into seqd select i, i from generate_series(1, 10) i"});
  for (const auto& polled : feeds_) {
    EXPECT_TRUE(polled->WaitForComplaint("SOURCE_REWOUND")) << polled->name();
    EXPECT_TRUE(polled->ReadToHead());
  }
  EXPECT_THAT(feeds_[0]->Told(kItem), IsEmpty());
  EXPECT_THAT(feeds_[1]->Told("public.seqd"), IsEmpty());
  tidemark_->Kill9();
  Launch();
  EXPECT_TRUE(feeds_[0]->WaitForComplaint("SOURCE_REWOUND")) << "it is not forgotten";
}

// proves A43: no poll takes an order of a feed that stopped, and what is said of it says what does.
TEST_F(PollScanTest, AFeedThatStoppedWhereItsTableWentBackIsRecovered) {
  Exec({"create table seqd (id bigint primary key, n bigint not null)",
        "create index on seqd (n, id)",
        "insert into seqd select i, 1000000 + i from generate_series(1, 10) i"});
  StartFeeds({{.tables = {"{table: public.seqd, cursor: n}"}}});
  if (HasFatalFailure()) return;
  Exec({"begin", "delete from seqd", "insert into seqd select i, i from generate_series(1, 7) i",
        "commit"});
  ASSERT_TRUE(feed().WaitForComplaint("SOURCE_REWOUND"));
  EXPECT_THAT(PolledFeed::Complaints(feed().Status()), HasSubstr("tidemark recover main"));
  EXPECT_FALSE(feed().StartSnapshot("public.seqd").ok());
  const auto recovered = tidemark_->Run({"recover", "main", "--policy", "resnapshot"});
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  ASSERT_EQ(recovered->exit_code, 0) << recovered->err;
  Exec({"insert into seqd values (8, 8)"});
  const std::vector<std::string> there = There("select * from seqd");
  ASSERT_TRUE(feed().subscriber().FollowUntil([&] { return feed().Rows("public.seqd") == there; },
                                              PolledFeed::kDeadline))
      << feed().Status().DebugString() << tidemark_->Diagnostics();
  EXPECT_EQ(feed().Status().generation(), 2u);
  EXPECT_EQ(feed().Status().gaps(), 1u);
}

}  // namespace
}  // namespace tidemark::testing
