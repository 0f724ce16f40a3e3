// Comparing all rows of a polled table: scans, which tell, and verifications, which name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/time/clock.h"
#include "proto/reason.h"
#include "tests/capture/poll/polled_postgres.h"
#include "tests/testing/wait_until.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class Findings final : public VerificationSink {
 public:
  bool Wanted() const override { return !ended_; }
  bool HasRoom() override { return true; }
  void Put(v1::VerifyResponse finding) override {
    if (finding.last()) {
      last = finding;
      return;
    }
    texts.push_back(v1::DifferenceKind_Name(finding.kind()).substr(16) + " " + finding.key());
  }
  void End(const absl::Status& status) override {
    ended_ = true;
    ended = status;
  }
  bool is_over() const { return ended_; }

  std::vector<std::string> texts;
  v1::VerifyResponse last;
  absl::Status ended;

 private:
  bool ended_ = false;
};

class PollScanTest : public PolledPostgres {
 protected:
  std::shared_ptr<Findings> Verify(PollDriver& driver, std::vector<TablePattern> tables = {}) {
    auto sink = std::make_shared<Findings>();
    EXPECT_TRUE(driver.source().Verify({.tables = std::move(tables), .sink = sink}).ok());
    EXPECT_TRUE(driver.ReadUntil([&] { return sink->is_over(); }));
    return sink;
  }
  void Scan(PollDriver& driver) {
    const uint64_t before = Finished(driver);
    ASSERT_TRUE(driver.source()
                    .OrderTable({.kind = TableOrder::Kind::kRead, .schema = "public", .table = "t"})
                    .ok());
    ASSERT_TRUE(driver.ReadUntil([&] { return Finished(driver) > before; }));
  }
  static uint64_t Finished(const PollDriver& driver) {
    return static_cast<uint64_t>(driver.checkpoint.poll().tables(0).scan().finished_us());
  }
  // What no poll can see: a row that came later than the window, one that moved backwards, one
  // that is gone.
  void ChangeUnseen() {
    Exec(
        "INSERT INTO t VALUES (10, 'late', now() - interval '1 day'); UPDATE t SET a = 'back', at "
        "= "
        "at - interval '1 day' WHERE id = 1; DELETE FROM t WHERE id = 2");
  }
};

// proves A09, A17, A27, A52
TEST_F(PollScanTest, AVerificationNamesWhatPollsCannotSeeAndTellsNothing) {
  Exec("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5) i");
  auto driver = Begin();
  EXPECT_THAT(Verify(*driver)->texts, IsEmpty());
  ChangeUnseen();
  ASSERT_TRUE(driver->Poll(3));
  const auto found = Verify(*driver);
  EXPECT_TRUE(found->ended.ok()) << found->ended;
  EXPECT_THAT(found->texts, UnorderedElementsAre("MISSING {\"id\":10}", "DIFFERENT {\"id\":1}",
                                                 "EXTRA {\"id\":2}"));
  EXPECT_EQ(found->last.totals().rows_compared(), 6u);
  EXPECT_THAT(driver->NewChanges(), IsEmpty());
}

TEST_F(PollScanTest, AVerificationRefusesATableThatIsNotPolled) {
  auto driver = Begin();
  ASSERT_TRUE(driver->Poll());
  const auto found = Verify(*driver, {*TablePattern::Parse("public.none")});
  EXPECT_EQ(ReasonOf(found->ended), reason::kTableUnknown);
}

// Rows above the fence are told by a later poll, and differ from nothing.
TEST_F(PollScanTest, WhatWaitsForALaterPollIsNoDifference) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->mutable_delay()->set_nanos(300'000'000);
  auto driver = Begin(config);
  ASSERT_TRUE(driver->Poll());
  Exec("INSERT INTO t SELECT i, 'x', clock_timestamp() FROM generate_series(1, 700) i");
  const auto found = Verify(*driver);
  EXPECT_THAT(found->texts, IsEmpty());
  EXPECT_EQ(found->last.totals().rows_compared(), 700u);
}

// proves A09, A17, A27
TEST_F(PollScanTest, AScanTellsWhatPollsCannotSee) {
  Exec("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5) i");
  auto driver = Begin();
  ChangeUnseen();
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), IsEmpty());
  Scan(*driver);
  EXPECT_THAT(driver->NewChanges(),
              UnorderedElementsAre(StartsWith("insert t id=10"), StartsWith("update t id=1 a=back"),
                                   "delete t key(id=2)"));
  for (const SeenTransaction& made : driver->transactions) {
    EXPECT_EQ(made.record.origin(), v1::ORIGIN_RESYNC);
    EXPECT_GT(made.position.ordinal(), 0u);
  }
  EXPECT_GT(driver->made_batches, 0u);
  const v1::KeyScanStatus scan = driver->Table().scan();
  EXPECT_FALSE(scan.running());
  EXPECT_EQ(scan.rows_read(), 5u);
  EXPECT_EQ(scan.missing(), 1u);
  EXPECT_EQ(scan.different(), 1u);
  EXPECT_EQ(scan.extra(), 1u);
  EXPECT_THAT(Verify(*driver)->texts, IsEmpty());
}

// Whoever sees in the status what a scan found can read what it told.
TEST_F(PollScanTest, WhatAScanFoundIsShownWhenItIsStoredAndNotBefore) {
  Exec("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5) i");
  auto driver = Begin();
  Exec("DELETE FROM t WHERE id = 2");
  ASSERT_TRUE(driver->Poll());
  ASSERT_TRUE(driver->source()
                  .OrderTable({.kind = TableOrder::Kind::kRead, .schema = "public", .table = "t"})
                  .ok());
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        const auto batch = driver->source().Read(absl::Now() + absl::Milliseconds(100));
        return batch.ok() && batch->checkpoint &&
               batch->checkpoint->poll().tables(0).scan().extra() == 1;
      },
      std::chrono::seconds(30)));
  EXPECT_EQ(driver->Table().scan().extra(), 0u);
  ASSERT_TRUE(driver->source().Confirm(Position()).ok());
  EXPECT_EQ(driver->Table().scan().extra(), 1u);
}

TEST_F(PollScanTest, AScanGoesOnWhereItWasWhenTheSourceIsOpenedAgain) {
  Exec("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 400) i");
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->set_page_rows(10);
  config.mutable_poll()->mutable_key_scan()->set_rows_per_second(100);
  auto driver = Begin(config);
  Exec("DELETE FROM t WHERE id % 2 = 0");
  ASSERT_TRUE(driver->Poll());
  ASSERT_TRUE(driver->source()
                  .OrderTable({.kind = TableOrder::Kind::kRead, .schema = "public", .table = "t"})
                  .ok());
  ASSERT_TRUE(driver->ReadUntil(
      [&] { return driver->checkpoint.poll().tables(0).scan().after_key_size() > 0; }));
  const uint64_t read = driver->checkpoint.poll().tables(0).scan().rows_read();
  driver->Restart();
  ASSERT_TRUE(driver->ReadUntil(
      [&] { return driver->checkpoint.poll().tables(0).scan().rows_read() > read; }));
  // Polls are told meanwhile.
  Exec("INSERT INTO t VALUES (1000, 'y')");
  ASSERT_TRUE(driver->Poll());
  const std::vector<std::string> meanwhile = driver->NewChanges();
  EXPECT_THAT(meanwhile, Contains(StartsWith("insert t id=1000")));
  ASSERT_TRUE(
      driver->ReadUntil([&] { return !driver->checkpoint.poll().tables(0).scan().running(); }));
  EXPECT_EQ(meanwhile.size() + driver->NewChanges().size(), 201u);
  EXPECT_LE(driver->Table().scan().rows_read(), 201u) << "none was read twice";
  EXPECT_EQ(driver->rows.Count("public.t"), 201u);
}

// A key that came with its row and the same key alone are one, whatever its columns are.
TEST_F(PollScanTest, KeysOfEveryKindAreThereWhenTheyAre) {
  const std::string key = "a, b, c, d, e, f, g, h";
  Exec(
      "CREATE TABLE k (a text, b uuid, c bytea, d numeric, e timestamptz, f char(5), g bool, h "
      "date, at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (" +
      key + ")); CREATE INDEX ON k (at, " + key + "); INSERT INTO k (" + key +
      ") VALUES (E'a''b\\\\\\t', gen_random_uuid(), '\\x00ff', 1.50, '2026-01-01 "
      "00:00:00.123456+02', 'x', true, '2026-01-01'), ('', gen_random_uuid(), '', -0.001, "
      "'infinity', '', false, '-infinity'), ('gone', gen_random_uuid(), '\\x01', 7, "
      "'2026-01-01 00:00:00+00', 'y', true, '2026-02-01')");
  auto driver = Begin(PolledFeedOf(*postgres_, {{.table = "public.k"}}));
  ASSERT_EQ(driver->rows.Count("public.k"), 3u);
  Exec("DELETE FROM k WHERE a = 'gone'");
  ASSERT_TRUE(driver->source()
                  .OrderTable({.kind = TableOrder::Kind::kRead, .schema = "public", .table = "k"})
                  .ok());
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.k") == 2; }));
  ASSERT_TRUE(driver->ReadUntil([&] { return !driver->Table().scan().running(); }));
  EXPECT_EQ(driver->Table().scan().extra(), 1u);
  EXPECT_EQ(driver->Table().scan().missing(), 0u);
  EXPECT_EQ(driver->Table().scan().different(), 0u);
  EXPECT_EQ(driver->transactions.size(), 1u);
}

TEST_F(PollScanTest, AScanComesByItsPeriod) {
  Exec("INSERT INTO t VALUES (1, 'x'), (2, 'y')");
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->mutable_key_scan()->mutable_period()->set_nanos(50'000'000);
  auto driver = Begin(config);
  Exec("DELETE FROM t WHERE id = 1");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 1; }));
  EXPECT_THAT(driver->Changes(), ElementsAre("delete t key(id=1)"));
}

TEST_F(PollScanTest, OnlyReadingAgainCanBeOrdered) {
  auto driver = Begin();
  ASSERT_TRUE(driver->Poll());
  EXPECT_EQ(ReasonOf(driver->source().OrderTable(
                {.kind = TableOrder::Kind::kAdd, .schema = "public", .table = "t"})),
            reason::kFeatureUnsupported);
  EXPECT_EQ(ReasonOf(driver->source().OrderTable(
                {.kind = TableOrder::Kind::kRead, .schema = "public", .table = "u"})),
            reason::kTableUnknown);
}

}  // namespace
}  // namespace tidemark::capture
