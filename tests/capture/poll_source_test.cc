// What polls tell, and what not, of a real PostgreSQL whose writers are stepped through by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "capture/poll/table_poll.h"
#include "proto/reason.h"
#include "proto/timestamps.h"
#include "tests/capture/poll/polled_postgres.h"

namespace tidemark::capture {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

class PollSourceTest : public PolledPostgres {
 protected:
  using PolledPostgres::PolledPostgres;

  // A row was stamped just before the end was sampled; then the server died.
  struct SampledThenDead {
    std::unique_ptr<PollDriver> driver;
    std::optional<LogEnd> end;
  };
  SampledThenDead SampleThenDie() {
    v1::FeedConfig config = PolledFeedOf(*postgres_);
    config.mutable_poll()->mutable_delay()->set_seconds(1);
    auto driver = Begin(config);
    EXPECT_TRUE(driver->Poll());
    Exec("INSERT INTO t VALUES (1, 'x')");
    const std::optional<LogEnd> end = driver->source().SampleEnd();
    driver->Restart();
    return {std::move(driver), end};
  }
};

// proves A01, A41, A44
TEST_F(PollSourceTest, TheFirstPollIsTheSnapshotAndLaterOnesTellWhatIsNew) {
  Exec("INSERT INTO t VALUES (1, 'x', 'epoch'), (2, 'y', '2026-01-01')");
  auto driver = Begin();
  EXPECT_THAT(driver->SnapshotRows(),
              ElementsAre(StartsWith("read t id=1 a=x"), StartsWith("read t id=2 a=y")));
  EXPECT_EQ(driver->whole, Position::Of(1, uint64_t{1}));
  Exec("INSERT INTO t VALUES (3, 'z')");
  Exec("UPDATE t SET a = 'w', at = clock_timestamp() WHERE id = 1");
  Exec("UPDATE t SET a = 'v', at = clock_timestamp() WHERE id = 1");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(),
              ElementsAre(StartsWith("insert t id=3 a=z"), StartsWith("update t id=1 a=v")));
  // One transaction, whose position is the number of the poll.
  EXPECT_EQ(driver->transactions.back().position.engine_low(),
            std::stoull(driver->transactions.back().record.source_transaction_id().substr(5)));
  EXPECT_EQ(driver->transactions.back().record.origin(), v1::ORIGIN_SOURCE);
}

// proves A08, A34, A54
TEST_F(PollSourceTest, WhatIsReadAgainUnchangedIsNoChange) {
  Exec("INSERT INTO t SELECT i, 'x' FROM generate_series(1, 50) i");
  auto driver = Begin();
  ASSERT_TRUE(driver->Poll(10));
  driver->Restart();
  ASSERT_TRUE(driver->Poll(10));
  EXPECT_THAT(driver->Changes(), IsEmpty());
  EXPECT_GE(driver->Status().poll().last_rows_read(), 50u) << "the window was read again";
}

// proves A04, A11, A12, A38, B138
TEST_F(PollSourceTest, RowsOfOneStampAreAllToldWhateverThePage) {
  for (const uint32_t page : {1u, 7u, 50u}) {
    v1::FeedConfig config = PolledFeedOf(*postgres_);
    config.mutable_poll()->set_page_rows(page);
    Exec("TRUNCATE t");
    auto driver = Begin(config);
    Exec(
        "INSERT INTO t SELECT i, 'x', date_trunc('second', now()) - i / 150 * interval '1 ms' "
        "FROM generate_series(1, 300) i");
    ASSERT_TRUE(driver->Poll());
    EXPECT_THAT(driver->NewChanges(), SizeIs(300)) << page;
    driver->Restart();
    ASSERT_TRUE(driver->Poll(2));
    EXPECT_THAT(driver->NewChanges(), IsEmpty()) << page;
  }
}

// proves A13
TEST_F(PollSourceTest, WithoutOverlapNoRowIsReadTwice) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->mutable_overlap()->set_seconds(0);
  config.mutable_poll()->set_allow_no_overlap(true);
  config.mutable_poll()->set_page_rows(3);
  auto driver = Begin(config);
  Exec("INSERT INTO t SELECT i, 'x', date_trunc('second', now()) FROM generate_series(1, 10) i");
  ASSERT_TRUE(driver->Poll(5));
  EXPECT_THAT(driver->Changes(), SizeIs(10));
  EXPECT_EQ(driver->Table().rows_read(), 10u);
}

// proves A03, A06, A25
TEST_F(PollSourceTest, ARowThatWasStampedEarlierAndCommitsLaterIsToldAndCounted) {
  auto driver = Begin();
  auto older = Session();
  ASSERT_TRUE(older->Exec("BEGIN; INSERT INTO t VALUES (1, 'older')").ok());
  Exec("INSERT INTO t VALUES (2, 'younger')");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=2")));
  EXPECT_EQ(driver->Table().late_rows(), 0u);
  ASSERT_TRUE(older->Exec("COMMIT").ok());
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=1")));
  EXPECT_EQ(driver->Table().late_rows(), 1u);
}

// proves A35
TEST_F(PollSourceTest, AnotherContentUnderTheSameStampIsAChangeAndNotLate) {
  Exec("INSERT INTO t VALUES (1, 'x')");
  auto driver = Begin();
  Exec("UPDATE t SET a = 'y'");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("update t id=1 a=y")));
  EXPECT_EQ(driver->Table().late_rows(), 0u);
}

// proves A33
TEST_F(PollSourceTest, RowsStampedAboveTheFenceWait) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->mutable_delay()->set_seconds(3600);
  Exec("INSERT INTO t VALUES (1, 'x')");
  auto driver = Begin(config);
  EXPECT_THAT(driver->SnapshotRows(), SizeIs(1)) << "the snapshot has what is there";
  // No poll can be waited for by its proof: that one is held back as long.
  Exec("INSERT INTO t VALUES (2, 'now', DEFAULT), (3, 'before', now() - interval '2 hours')");
  ASSERT_TRUE(driver->ReadUntil([&] { return !driver->transactions.empty(); }));
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=3")));
  Exec("UPDATE t SET at = at - interval '2 hours' WHERE id = 2");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->transactions.size() > 1; }));
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=2")));
}

// proves A24
TEST_F(PollSourceTest, AllPagesOfAPollAreOfOneSnapshotAndLargeOnesComeInParts) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->set_page_rows(5);
  auto driver = Begin(config);
  Exec("INSERT INTO t SELECT i, repeat('x', 100000), now() FROM generate_series(1, 40) i");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->large_parts > 0; }));
  ASSERT_THAT(driver->transactions, IsEmpty()) << "it is under way";
  Exec("UPDATE t SET a = 'new', at = clock_timestamp()");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->transactions.size() == 2; }));
  EXPECT_TRUE(driver->transactions[0].large);
  EXPECT_THAT(driver->transactions[0].changes, SizeIs(40));
  for (const SeenChange& change : driver->transactions[0].changes) {
    EXPECT_THAT(change.Text(), StartsWith("insert"));
    EXPECT_THAT(change.Text(), HasSubstr("xxx"));
  }
  for (const SeenChange& change : driver->transactions[1].changes) {
    EXPECT_THAT(change.Text(), HasSubstr("a=new"));
  }
}

// proves A31
TEST_F(PollSourceTest, WhatWasNotHandedOverWithACheckpointIsReadAgain) {
  auto driver = Begin();
  const v1::Checkpoint before = driver->checkpoint;
  Exec("INSERT INTO t VALUES (1, 'x')");
  ASSERT_TRUE(driver->Poll());
  ASSERT_THAT(driver->NewChanges(), SizeIs(1));
  // The batch never became durable.
  driver->checkpoint = before;
  driver->rows.Clear();
  driver->transactions.clear();
  driver->Restart();
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->Changes(), ElementsAre(StartsWith("insert t id=1")));
}

// Whoever sees in the status that there was a poll can read what it told.
TEST_F(PollSourceTest, APollIsShownWhenItIsStoredAndNotBefore) {
  Exec("INSERT INTO t VALUES (1, 'x')");
  PollDriver driver(PolledFeedOf(*postgres_));
  ASSERT_TRUE(driver.Open().ok());
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        const auto batch = driver.source().Read(absl::Now() + absl::Milliseconds(100));
        return batch.ok() && batch->checkpoint && batch->checkpoint->poll().polls() == 1;
      },
      std::chrono::seconds(30)));
  EXPECT_EQ(driver.Status().source_state(), v1::SOURCE_STATE_SNAPSHOT);
  EXPECT_EQ(driver.Status().poll().polls(), 0u);
  ASSERT_TRUE(driver.source().Confirm(Position()).ok());
  EXPECT_EQ(driver.Status().source_state(), v1::SOURCE_STATE_STREAMING);
  EXPECT_EQ(driver.Status().poll().polls(), 1u);
}

TEST_F(PollSourceTest, ASnapshotThatWasNotWholeBeginsAgain) {
  Exec("INSERT INTO t SELECT i, repeat('x', 100000) FROM generate_series(1, 40) i");
  PollDriver driver(PolledFeedOf(*postgres_));
  ASSERT_TRUE(driver.ReadUntil([&] { return !driver.snapshot_rows.empty(); }));
  ASSERT_FALSE(driver.whole);
  driver.Restart();
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_THAT(driver.SnapshotRows(), SizeIs(40));
}

// proves A26, A36, A37, B142
TEST_F(PollSourceTest, RowsWithoutACursorAreRefusedIncludedOrLeftOutAndCounted) {
  Exec(
      "ALTER TABLE t ALTER at DROP NOT NULL; INSERT INTO t VALUES (1, 'x', NULL), (2, 'y', "
      "DEFAULT)");
  PolledOptions options;
  PollDriver refusing(PolledFeedOf(*postgres_, {options}));
  ASSERT_TRUE(refusing.ReadUntilFailed());
  EXPECT_EQ(ReasonOf(refusing.last_error), reason::kCursorNull);

  options.null_cursor = "exclude";
  auto excluding = Begin(PolledFeedOf(*postgres_, {options}));
  EXPECT_THAT(excluding->SnapshotRows(), ElementsAre(StartsWith("read t id=2")));
  EXPECT_EQ(excluding->Table().null_cursors(), 1u);

  options.null_cursor = "include";
  auto including = Begin(PolledFeedOf(*postgres_, {options}));
  EXPECT_THAT(including->SnapshotRows(), SizeIs(2));
  Exec("INSERT INTO t VALUES (3, 'z', NULL), (4, 'w', DEFAULT)");
  Exec("UPDATE t SET a = 'v' WHERE id = 1");
  ASSERT_TRUE(including->Poll(3));
  EXPECT_THAT(including->NewChanges(),
              UnorderedElementsAre(StartsWith("update t id=1 a=v"), StartsWith("insert t id=3"),
                                   StartsWith("insert t id=4")));
  EXPECT_EQ(including->Table().null_cursors(), 2u);
  // A row that gets a value comes like any other.
  Exec("UPDATE t SET at = clock_timestamp() WHERE id = 3");
  ASSERT_TRUE(including->Poll());
  EXPECT_THAT(including->NewChanges(), ElementsAre(StartsWith("update t id=3")));
  ASSERT_TRUE(excluding->Poll());
  EXPECT_THAT(excluding->NewChanges(),
              UnorderedElementsAre(StartsWith("insert t id=4"), StartsWith("insert t id=3")));
  // One that is known stays as it was told, until it has a stamp again.
  Exec("UPDATE t SET a = 'unseen', at = NULL WHERE id = 2");
  ASSERT_TRUE(excluding->Poll(3));
  EXPECT_THAT(excluding->NewChanges(), IsEmpty());
  EXPECT_EQ(excluding->rows.Count("public.t"), 3u);
  Exec("UPDATE t SET at = clock_timestamp() WHERE id = 2");
  ASSERT_TRUE(excluding->Poll());
  EXPECT_THAT(excluding->NewChanges(), ElementsAre(StartsWith("update t id=2 a=unseen")));
}

// proves A42
TEST_F(PollSourceTest, PoisonIsToldAndNamedAndDoesNotMoveTheBound) {
  Exec("INSERT INTO t VALUES (1, 'x', 'infinity'), (2, 'y', now())");
  auto driver = Begin();
  EXPECT_THAT(driver->SnapshotRows(), SizeIs(2));
  Exec(
      "INSERT INTO t VALUES (3, 'z', '-infinity'), (4, 'w', '9999-12-31'), (5, 'v', now() + "
      "interval '1 day'), (6, 'u', clock_timestamp())");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), SizeIs(4)) << "each once";
  EXPECT_EQ(driver->Table().poison_rows(), 4u);
  EXPECT_THAT(driver->Table().poison_keys(), Contains("{\"id\":4}"));
  EXPECT_THAT(driver->Table().bound(), Not(StartsWith("9999")));
  Exec("INSERT INTO t VALUES (7, 't')");
  Exec("UPDATE t SET a = 'new' WHERE id = 1");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(),
              UnorderedElementsAre(StartsWith("update t id=1 a=new"), StartsWith("insert t id=7")));
}

// proves A22, B170
TEST_F(PollSourceTest, AMarkedRowIsDeletedOnceAndComesBackAsAnInsert) {
  Exec(
      "ALTER TABLE t ADD gone timestamptz; INSERT INTO t VALUES (1, 'x', DEFAULT, NULL), (2, 'y', "
      "DEFAULT, NULL), (3, 'z', "
      "now(), "
      "now())");
  PolledOptions options;
  options.deleted = "gone";
  auto driver = Begin(PolledFeedOf(*postgres_, {options}));
  EXPECT_THAT(driver->SnapshotRows(), SizeIs(2));
  Exec("UPDATE t SET gone = now(), at = clock_timestamp() WHERE id = 1");
  Exec("DELETE FROM t WHERE id = 2");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), ElementsAre("delete t key(id=1)"))
      << "nothing tells of the row that is not there any more";
  Exec("UPDATE t SET gone = NULL, at = clock_timestamp() WHERE id = 1");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=1 a=x")));
}

// proves A23, A50, A51
TEST_F(PollSourceTest, TombstonesDeleteWhatIsNotYounger) {
  Exec(
      "CREATE TABLE gone (id int, at timestamptz NOT NULL DEFAULT now()); CREATE INDEX ON gone "
      "(at, "
      "id); INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5) i");
  PolledOptions options;
  options.tombstones = "public.gone";
  auto driver = Begin(PolledFeedOf(*postgres_, {options}));
  Exec("DELETE FROM t WHERE id = 1; INSERT INTO gone VALUES (1), (1)");
  // Deleted and inserted again, in one transaction and later.
  Exec(
      "DELETE FROM t WHERE id = 2; INSERT INTO gone VALUES (2); INSERT INTO t VALUES (2, 'again', "
      "now())");
  Exec("DELETE FROM t WHERE id = 3; INSERT INTO gone VALUES (3)");
  Exec("INSERT INTO t VALUES (3, 'later')");
  // A key that was never told.
  Exec("INSERT INTO gone VALUES (99)");
  // One that stays in its table all the same.
  Exec("INSERT INTO gone VALUES (4)");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(),
              UnorderedElementsAre("delete t key(id=1)", StartsWith("update t id=2 a=again"),
                                   StartsWith("update t id=3 a=later"), "delete t key(id=4)"));
  driver->Restart();
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), IsEmpty());
}

// However many lie between them, and though the row is read too.
TEST_F(PollSourceTest, AKeyThatWasDeletedSeveralTimesIsDeletedOnce) {  // proves A23
  Exec(
      "CREATE TABLE gone (id int, at timestamptz NOT NULL DEFAULT now()); CREATE INDEX ON gone "
      "(at, id); CREATE INDEX ON gone (id, at); INSERT INTO t SELECT i, 'x' FROM "
      "generate_series(1, 3) i");
  PolledOptions options;
  options.tombstones = "public.gone";
  v1::FeedConfig config = PolledFeedOf(*postgres_, {options});
  config.mutable_poll()->set_page_rows(2);
  auto driver = Begin(config);
  Exec(
      "INSERT INTO gone SELECT i, now() - n * interval '1 ms' FROM generate_series(1, 3) i, "
      "generate_series(0, 2) n; INSERT INTO gone SELECT 1 FROM generate_series(1, 3); DELETE FROM "
      "t WHERE id = 1");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), UnorderedElementsAre("delete t key(id=1)", "delete t key(id=2)",
                                                         "delete t key(id=3)"));
}

// proves A19
TEST_F(PollSourceTest, ASequenceThatDoesNotFollowTheCommitsIsNoLoss) {
  Exec(
      "CREATE SEQUENCE s CACHE 100; CREATE TABLE n (id bigint PRIMARY KEY DEFAULT nextval('s'), a "
      "text)");
  auto driver = Begin(PolledFeedOf(*postgres_, {{.table = "public.n", .cursor = "id"}}));
  auto one = Session();
  auto other = Session();
  ASSERT_TRUE(one->Exec("BEGIN; INSERT INTO n (a) VALUES ('first')").ok());
  ASSERT_TRUE(other->Exec("INSERT INTO n (a) VALUES ('second')").ok());
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre("insert n id=101 a=second"));
  ASSERT_TRUE(one->Exec("COMMIT").ok());
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre("insert n id=1 a=first"));
  EXPECT_EQ(driver->Table().late_rows(), 1u);
}

// proves A05, A39, A40, B140, B172
TEST_F(PollSourceTest, CursorsKeepTheirPrecisionInEveryZone) {
  Exec("CREATE TABLE z (id int PRIMARY KEY, at timestamp NOT NULL); CREATE INDEX ON z (at, id)");
  for (const char* zone : {"UTC", "America/Bogota", "Asia/Kolkata"}) {
    Exec(std::string("TRUNCATE z; ALTER DATABASE postgres SET timezone = '") + zone + "'");
    auto driver = Begin(PolledFeedOf(*postgres_, {{.table = "public.z"}}));
    Exec(
        "INSERT INTO z SELECT i, date_trunc('second', clock_timestamp() AT TIME ZONE 'UTC') - "
        "interval '10 s' + (123456 + i) * interval '1 us' FROM generate_series(1, 2) i");
    ASSERT_TRUE(driver->Poll());
    EXPECT_THAT(driver->NewChanges(), SizeIs(2)) << zone;
    EXPECT_EQ(driver->Table().poison_rows(), 0u) << zone;
    EXPECT_THAT(driver->Table().bound(), HasSubstr(".123458")) << zone;
    // Another one from now on.
    Exec("ALTER DATABASE postgres SET timezone = 'Pacific/Auckland'");
    driver->Restart();
    ASSERT_TRUE(driver->Poll(2));
    EXPECT_THAT(driver->NewChanges(), IsEmpty()) << zone;
    Exec("INSERT INTO z SELECT 3, max(at) + interval '1 us' FROM z");
    ASSERT_TRUE(driver->Poll(2));
    EXPECT_THAT(driver->NewChanges(), SizeIs(1)) << zone;
  }
}

// proves A16
TEST_F(PollSourceTest, ACursorThatIsOnlyADayIsReadAgainFromTheDayBefore) {
  Exec(
      "CREATE TABLE d (id int PRIMARY KEY, at date NOT NULL); CREATE INDEX ON d (at, id); INSERT "
      "INTO d VALUES (50, current_date)");
  v1::FeedConfig config = PolledFeedOf(*postgres_, {{.table = "public.d"}});
  config.mutable_poll()->mutable_overlap()->set_seconds(1);
  auto driver = Begin(config);
  Exec("INSERT INTO d VALUES (10, current_date), (90, current_date), (20, current_date - 1)");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), SizeIs(3));
}

// proves A45
TEST_F(PollSourceTest, KeysOfManyTypesGoOnWhereThePageEnded) {
  Exec(
      "CREATE TABLE k1 (k text COLLATE \"en-x-icu\" PRIMARY KEY, at timestamptz NOT NULL DEFAULT "
      "now()); CREATE INDEX ON k1 (at, k);"
      "CREATE TABLE k2 (k uuid, b bytea, at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (b, "
      "k));"
      "CREATE INDEX ON k2 (at, b, k);"
      "CREATE TABLE k3 (k int, n char(4), at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (k, "
      "n)); CREATE INDEX ON k3 (at DESC, k DESC, n DESC)");
  v1::FeedConfig config = PolledFeedOf(
      *postgres_, {{.table = "public.k1"}, {.table = "public.k2"}, {.table = "public.k3"}});
  config.mutable_poll()->set_page_rows(2);
  auto driver = Begin(config);
  Exec(
      "INSERT INTO k1 SELECT k, now() FROM unnest(ARRAY['a', 'B', 'é', 'Z', 'b', 'A', 'aa', '', "
      "'it''s', E'tab\\there']) k;"
      "INSERT INTO k2 SELECT md5(i::text)::uuid, sha256(i::text::bytea), now() FROM "
      "generate_series(1, 10) i;"
      "INSERT INTO k3 SELECT i % 3, i::text, now() FROM generate_series(1, 10) i");
  ASSERT_TRUE(driver->Poll(3));
  EXPECT_THAT(driver->NewChanges(), SizeIs(30));
}

// proves A43
TEST_F(PollSourceTest, ASourceThatWasSetBackIsLoudUntilAllRowsAreCompared) {
  Exec(
      "CREATE TABLE other (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()); INSERT INTO "
      "t "
      "VALUES (1, 'x', '2026-01-01'), (2, 'y', DEFAULT)");
  v1::FeedConfig config = PolledFeedOf(*postgres_, {PolledOptions(), {.table = "public.other"}});
  auto driver = Begin(config);
  Exec("TRUNCATE t; INSERT INTO t VALUES (1, 'older', '2025-12-01')");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->Status().table_problems_size() > 0; }));
  EXPECT_EQ(driver->Status().table_problems(0).reason(), reason::kSourceRewound);
  const v1::PositionStatus since = driver->Status().table_problems(0).since();
  const auto behind = driver->source().ParseNative(since.native_position(), 1);
  ASSERT_TRUE(behind.ok()) << behind.status();
  EXPECT_EQ(since.position(), behind->Text());
  EXPECT_GT(since.commit_time().seconds(), 0);
  // The other goes on, and the moment stays.
  Exec("INSERT INTO other VALUES (1)");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert other id=1")));
  EXPECT_EQ(driver->Status().table_problems(0).since().position(), since.position());
  driver->Restart();
  ASSERT_TRUE(driver->Poll());
  ASSERT_EQ(driver->Status().table_problems_size(), 1);
  EXPECT_EQ(driver->Status().table_problems(0).since().position(), since.position());
  ASSERT_TRUE(driver->source()
                  .OrderTable({.kind = TableOrder::Kind::kRead, .schema = "public", .table = "t"})
                  .ok());
  ASSERT_TRUE(driver->ReadUntil([&] {
    return driver->Status().table_problems_size() == 0 && driver->transactions.size() >= 3;
  }));
  EXPECT_THAT(driver->NewChanges(),
              UnorderedElementsAre(StartsWith("update t id=1 a=older"), "delete t key(id=2)"));
  Exec("INSERT INTO t VALUES (3, 'z', '2025-12-02')");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=3")));
}

// proves A43
TEST_F(PollSourceTest, TheOnlyTableThatWasSetBackStopsTheFeed) {
  Exec("INSERT INTO t VALUES (1, 'x', '2026-01-01'), (2, 'y', DEFAULT)");
  auto driver = Begin();
  Exec("TRUNCATE t; INSERT INTO t VALUES (1, 'older', '2025-12-01')");
  ASSERT_TRUE(driver->ReadUntilFailed());
  EXPECT_EQ(ReasonOf(driver->last_error), reason::kSourceRewound);
  // As `tidemark recover --policy resnapshot` has it.
  driver->checkpoint.mutable_broken()->set_reason(ReasonOf(driver->last_error));
  driver->checkpoint.mutable_broken()->set_policy(v1::RECOVERY_POLICY_RESNAPSHOT);
  driver->Restart();
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 1; }));
  ASSERT_TRUE(driver->gap);
  EXPECT_EQ(driver->transactions.back().position.generation(), 2u);
}

TEST_F(PollSourceTest, AnotherClusterIsRefused) {
  auto driver = Begin();
  EXPECT_EQ(driver->checkpoint.poll().postgres().system_identifier(),
            Value("SELECT system_identifier FROM pg_control_system()"));
  driver->checkpoint.mutable_poll()->mutable_postgres()->set_system_identifier("1");
  driver->Restart();
  ASSERT_TRUE(driver->ReadUntilFailed());
  EXPECT_EQ(ReasonOf(driver->last_error), reason::kSourceReplaced);
}

// proves A28, P11
TEST_F(PollSourceTest, ReadingTheColumnsIsAllThatIsNeededAndNothingIsWritten) {
  Exec(
      "CREATE ROLE reader LOGIN; GRANT SELECT (id, a, at) ON t TO reader; INSERT INTO t VALUES (1, "
      "'x')");
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  config.mutable_poll()->mutable_postgres()->set_user("reader");
  auto driver = Begin(config);
  Exec("INSERT INTO t VALUES (2, 'y')");
  const std::string before = Value("SELECT pg_snapshot_xmax(pg_current_snapshot())");
  ASSERT_TRUE(driver->Poll(20));
  EXPECT_THAT(driver->NewChanges(), SizeIs(1));
  EXPECT_EQ(Value("SELECT pg_snapshot_xmax(pg_current_snapshot())"), before);
  EXPECT_FALSE(driver->Status().poll().has_overlap_needed()) << "it may not see who writes";
}

TEST_F(PollSourceTest, TheOldestOpenWriterIsNamed) {
  auto driver = Begin();
  auto writer = Session();
  ASSERT_TRUE(writer->Exec("BEGIN; INSERT INTO t VALUES (1, 'x')").ok());
  ASSERT_TRUE(driver->Poll());
  const v1::PollStatus poll = driver->Status().poll();
  EXPECT_THAT(poll.overlap_held_by(), HasSubstr(fmt::format("pid {}", writer->backend_pid())));
  // As long as it was open at that poll: what now() gave it, the overlap has to reach.
  const int64_t open_us = std::stoll(Value(fmt::format(
      "SELECT (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint FROM "
      "pg_stat_activity WHERE pid = {}",
      writer->backend_pid())));
  EXPECT_GT(FromDuration(poll.overlap_needed()), absl::ZeroDuration());
  EXPECT_LE(FromDuration(poll.overlap_needed()), absl::Microseconds(open_us));
  EXPECT_EQ(FromDuration(poll.overlap()), absl::Minutes(1));
  ASSERT_TRUE(writer->Exec("COMMIT").ok());
  ASSERT_TRUE(driver->Poll());
  EXPECT_EQ(driver->Status().poll().overlap_held_by(), "");
  EXPECT_TRUE(driver->Status().poll().has_overlap_needed()) << "nobody writes, which is known";
}

TEST_F(PollSourceTest, ATableThatIsAlteredOrGoneIsNamedAndTheOthersGoOn) {
  Exec(
      "CREATE TABLE other (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()); INSERT INTO "
      "t "
      "VALUES (1, 'x')");
  auto driver = Begin(PolledFeedOf(*postgres_, {PolledOptions(), {.table = "public.other"}}));
  Exec("ALTER TABLE t ADD b int; INSERT INTO t VALUES (2, 'y', now(), 7)");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), Contains(HasSubstr("b=7")));
  // It waits for the poll that is under way, which goes on when it is read.
  std::thread drop([&] { Exec("DROP TABLE t; INSERT INTO other VALUES (1)"); });
  EXPECT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.other") == 1; }));
  drop.join();
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert other id=1")));
  ASSERT_EQ(driver->Status().table_problems_size(), 1);
  EXPECT_EQ(driver->Status().table_problems(0).reason(), reason::kSourceTableMissing);
  EXPECT_THAT(driver->notices, Contains(HasSubstr("SOURCE_TABLE_MISSING")));
  // Another one in its place is compared as a whole.
  Exec(
      "CREATE TABLE t (id int PRIMARY KEY, a text, at timestamptz NOT NULL DEFAULT now()); INSERT "
      "INTO t VALUES (1, 'new')");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 1; }));
  EXPECT_EQ(driver->Status().table_problems_size(), 0);
}

TEST_F(PollSourceTest, ATableThatIsLockedIsPolledWhenItIsFree) {
  Exec("CREATE TABLE other (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())");
  auto driver = Begin(PolledFeedOf(*postgres_, {PolledOptions(), {.table = "public.other"}}));
  auto holder = Session();
  ASSERT_TRUE(holder->Exec("BEGIN; LOCK TABLE t").ok());
  Exec("INSERT INTO other VALUES (1)");
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert other id=1")));
  ASSERT_EQ(driver->Status().table_problems_size(), 1);
  EXPECT_EQ(driver->Status().table_problems(0).reason(), reason::kTableBusy);
  ASSERT_TRUE(holder->Exec("INSERT INTO t VALUES (1, 'x'); COMMIT").ok());
  ASSERT_TRUE(driver->Poll());
  EXPECT_THAT(driver->NewChanges(), ElementsAre(StartsWith("insert t id=1")));
}

// proves A02
TEST_F(PollSourceTest, SaysWhatItDoesNotPromise) {
  v1::FeedConfig config = PolledFeedOf(*postgres_);
  EXPECT_EQ(PollSource(config).Describe().completeness, v1::COMPLETENESS_CLASS_WINDOW_BOUNDED);
  EXPECT_FALSE(PollSource(config).Describe().replays_exactly);
  config.mutable_poll()->mutable_overlap();
  const SourceDescription described = PollSource(config).Describe();
  EXPECT_EQ(described.completeness, v1::COMPLETENESS_CLASS_BEST_EFFORT);
  EXPECT_THAT(described.notes, ElementsAre(HasSubstr("several updates of a row"),
                                           HasSubstr("or is passed by more numbers")));
  EXPECT_THAT(described.table_notes[0].text, HasSubstr("deletes that polls see"));
}

TEST_F(PollSourceTest, EndsBehindThePollThatIsNamedOrSampled) {
  auto driver = Begin();
  ASSERT_TRUE(driver->Poll());
  Exec("INSERT INTO t VALUES (1, 'x')");
  const std::optional<LogEnd> end = driver->source().SampleEnd();
  ASSERT_TRUE(end);
  EXPECT_EQ(*driver->source().ParseNative(driver->source().NativeText(end->position), 1),
            end->position);
  ASSERT_TRUE(driver->source().StopAt({.bound = end->position, .time = std::nullopt}).ok());
  driver->source().Prove(end->position);
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_THAT(driver->NewChanges(), SizeIs(1));
  EXPECT_EQ(driver->finished, end->position);
  EXPECT_EQ(driver->Status().source_state(), v1::SOURCE_STATE_FINISHED);
  EXPECT_EQ(ReasonOf(driver->source().StopAt(
                {.bound = Position::Of(1, uint64_t{1}), .time = std::nullopt})),
            reason::kBoundBeforeStart);
  EXPECT_EQ(ReasonOf(driver->source().ParseNative("0/16B3748", 1).status()),
            reason::kRequestInvalid);
}

// The server dies when the end was sampled. What was stamped just before waits for the fence, and
// so does the poll that is to be the last.
TEST_F(PollSourceTest, TheLastPollComesBehindTheFenceAfterADeathToo) {
  const SampledThenDead dead = SampleThenDie();
  ASSERT_TRUE(dead.end);
  PollDriver* const driver = dead.driver.get();
  const Position end = dead.end->position;
  ASSERT_TRUE(driver->source().StopAt({.bound = end, .time = std::nullopt}).ok());
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_THAT(driver->NewChanges(), SizeIs(1));
}

// Whoever reads up to a poll knows its number over the death of the server too, and nobody says so
// to the source.
TEST_F(PollSourceTest, APollThatWasSampledInAnotherLifeComesBehindTheFence) {
  const SampledThenDead dead = SampleThenDie();
  ASSERT_TRUE(dead.end);
  PollDriver* const driver = dead.driver.get();
  const Position end = dead.end->position;
  driver->source().Prove(end);
  ASSERT_TRUE(
      driver->ReadUntil([&] { return driver->checkpoint.poll().polls() >= end.engine_low(); }));
  EXPECT_THAT(driver->NewChanges(), SizeIs(1));
}

TEST_F(PollSourceTest, AStandbyIsPolledAndMayBePromoted) {
  auto standby = testing::LivePostgres::CreateStandby(*postgres_);
  ASSERT_TRUE(standby.ok()) << standby.status();
  Exec("INSERT INTO t VALUES (1, 'x')");
  auto driver = std::make_unique<PollDriver>(PolledFeedOf(**standby));
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 1; }));
  Exec("INSERT INTO t VALUES (2, 'y')");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 2; }));
  ASSERT_TRUE((*standby)->Promote().ok());
  ASSERT_TRUE((*standby)->Exec("INSERT INTO t VALUES (3, 'z')").ok());
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->rows.Count("public.t") == 3; }));
  driver->Restart();
  ASSERT_TRUE(driver->Poll());
}

}  // namespace
}  // namespace tidemark::capture
