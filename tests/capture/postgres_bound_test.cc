// Where a source ends, and what it proves, against a real server.
#include <signal.h>

#include <algorithm>

#include "capture/postgres/connection.h"
#include "capture/postgres/pgoutput_decoder.h"
#include "capture/postgres/replication_message.h"
#include "capture/postgres/stop_bound.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

using postgres::BoundDecision;
using postgres::Connection;
using postgres::Lsn;
using postgres::LsnText;

StopPoint Bound(Lsn lsn) { return {.bound = Position::Of(1, lsn), .time = std::nullopt}; }

class PostgresBoundTest : public PostgresFixture {
 protected:
  explicit PostgresBoundTest() {
    options_.settings = {{"wal_sender_timeout", "600s"}, {"autovacuum", "off"}};
  }

  // A driver on table t that streams and confirms nothing, so that it can read the same again.
  std::unique_ptr<SourceDriver> Streaming() {
    Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
    auto driver = std::make_unique<SourceDriver>(FeedOf(*postgres_, {"public.t"}));
    EXPECT_TRUE(driver->ReadUntilWhole());
    driver->confirms = false;
    return driver;
  }
  // Puts the slot back to where `origin`, a copy of it, stands.
  void RestoreSlot(SourceDriver& driver) {
    driver.source().Close();
    ASSERT_TRUE(testing::WaitUntil(
        [&] {
          return Value(
                     "SELECT active FROM pg_replication_slots WHERE slot_name = "
                     "'tidemark_shop'") == "f";
        },
        std::chrono::seconds(30)));
    Exec("SELECT pg_drop_replication_slot('tidemark_shop')");
    Exec("SELECT pg_copy_logical_replication_slot('origin', 'tidemark_shop')");
  }
  // Reads from `start` up to a bound, as a new life of the server.
  static void ReadUpTo(SourceDriver& driver, const v1::Checkpoint& start, const StopPoint& point) {
    driver.Restart();
    driver.transactions.clear();
    driver.checkpoint = start;
    ASSERT_TRUE(driver.source().StopAt(point).ok());
    ASSERT_TRUE(driver.ReadUntil([&] { return driver.finished.has_value(); }));
  }
  static std::vector<Lsn> Ends(const SourceDriver& driver) {
    std::vector<Lsn> ends;
    for (const SeenTransaction& seen : driver.transactions) {
      ends.push_back(seen.position.engine_low());
    }
    return ends;
  }
};

// proves S09, S10, S11, S18, S35, S52, E4, E7
TEST_F(PostgresBoundTest, IncludesWhatEndsAtOrBeforeTheBoundAndNothingElse) {
  const auto driver = Streaming();
  const v1::Checkpoint start = driver->checkpoint;
  Exec("SELECT pg_copy_logical_replication_slot('tidemark_shop', 'origin')");
  // Four commits without a byte between them, in the order of their sessions.
  std::vector<std::unique_ptr<testing::PgSession>> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(postgres_->Connect().value());
    ASSERT_TRUE(sessions[i]->Exec("BEGIN").ok());
    ASSERT_TRUE(sessions[i]->Exec(fmt::format("INSERT INTO t VALUES ({})", i)).ok());
  }
  for (const auto& session : sessions) ASSERT_TRUE(session->Exec("COMMIT").ok());
  ASSERT_TRUE(driver->ReadUntilTransactions(4));
  // As the decoder said them.
  const std::vector<Lsn> ends = Ends(*driver);
  std::vector<Lsn> commits;
  for (const SeenTransaction& seen : driver->transactions) {
    commits.push_back(seen.record.commit_lsn());
  }
  EXPECT_EQ(ends[1], commits[2]) << "the two are adjacent";

  std::vector<Lsn> bounds = {driver->checkpoint_lsn()};
  for (int i = 1; i < 4; ++i) {
    for (const Lsn at : {commits[i], ends[i]}) bounds.insert(bounds.end(), {at - 1, at, at + 1});
  }
  for (const Lsn bound : bounds) {
    SCOPED_TRACE(fmt::format("bound {}", LsnText(bound)));
    RestoreSlot(*driver);
    ReadUpTo(*driver, start, Bound(bound));
    std::vector<Lsn> within;
    std::copy_if(ends.begin(), ends.end(), std::back_inserter(within),
                 [&](Lsn end) { return end <= bound; });
    ASSERT_EQ(Ends(*driver), within);
    EXPECT_EQ(driver->finished->engine_low(), bound);
    EXPECT_LE(driver->checkpoint_lsn(), bound);
    // Whoever lifts the bound gets the rest, once.
    const v1::Checkpoint rest = driver->checkpoint;
    driver->Restart();
    driver->checkpoint = rest;
    ASSERT_TRUE(driver->ReadUntil([&] { return driver->transactions.size() >= ends.size(); }));
    ASSERT_EQ(Ends(*driver), ends);
  }
}

// proves S06
TEST_F(PostgresBoundTest, ATimeEndsBeforeTheFirstLaterCommit) {
  const auto driver = Streaming();
  const v1::Checkpoint start = driver->checkpoint;
  ExecEach({"INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)"});
  ASSERT_TRUE(driver->ReadUntilTransactions(3));
  const std::vector<Lsn> ends = Ends(*driver);
  const SeenTransaction third = driver->transactions[2];
  StopPoint point;
  point.time = absl::FromUnixMicros(driver->transactions[1].record.commit_time_us());
  ReadUpTo(*driver, start, point);
  EXPECT_EQ(Ends(*driver), (std::vector<Lsn>{ends[0], ends[1]}));
  EXPECT_EQ(driver->finished->engine_low(), third.record.commit_lsn());
}

// proves S12, S13
TEST_F(PostgresBoundTest, AStraddlerIsLeftOutWholeHoweverLargeAndComesLater) {
  const auto driver = Streaming();
  const v1::Checkpoint start = driver->checkpoint;
  Exec("INSERT INTO t VALUES (0)");
  Exec("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i");
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  const SeenTransaction large = driver->transactions[1];
  ASSERT_TRUE(large.large);
  for (const Lsn bound : {large.record.commit_lsn() + 1, large.position.engine_low() - 1}) {
    driver->large_parts = 0;
    ReadUpTo(*driver, start, Bound(bound));
    EXPECT_EQ(driver->transactions.size(), 1u);
    EXPECT_GT(driver->large_parts, 0u) << "held outside of memory until its end was known";
    EXPECT_EQ(driver->open_large(), 0u) << "and withdrawn";
    EXPECT_EQ(driver->checkpoint_lsn(), large.record.commit_lsn());
  }
  const v1::Checkpoint rest = driver->checkpoint;
  driver->Restart();
  driver->checkpoint = rest;
  ASSERT_TRUE(driver->ReadUntilTransactions(2));
  EXPECT_EQ(driver->transactions[1].run_bytes, large.run_bytes);
}

TEST_F(PostgresBoundTest, AnOrderInTheMiddleOfATransactionHolds) {
  const auto driver = Streaming();
  Exec("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->large_parts > 0; }));
  ASSERT_TRUE(driver->transactions.empty());
  // Before the transaction in flight.
  ASSERT_TRUE(driver->source().StopAt(Bound(driver->checkpoint_lsn())).ok());
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_TRUE(driver->transactions.empty());
  EXPECT_EQ(driver->open_large(), 0u);
}

// proves S15, S39, S46, K7
TEST_F(PostgresBoundTest, TheEndOfAnIdleServerIsReachedAlsoAfterASegmentSwitch) {
  const auto driver = Streaming();
  Exec("INSERT INTO t VALUES (1)");
  Exec("SELECT pg_switch_wal()");
  const std::string ids = "SELECT pg_snapshot_xmax(pg_current_snapshot())";
  const std::string next_id = Value(ids);
  std::optional<LogEnd> end;
  for (int i = 0; i < 100; ++i) end = driver->source().SampleEnd();
  ASSERT_TRUE(end.has_value());
  const Lsn insert = std::stoull(Value("SELECT pg_current_wal_insert_lsn() - '0/0'"));
  EXPECT_GT(insert, end->position.engine_low())
      << "an end taken from there would be reached when somebody writes";
  EXPECT_NEAR(absl::ToDoubleSeconds(absl::Now() - end->clock), 0, 30);

  driver->source().Prove(end->position);
  const absl::Time began = absl::Now();
  ASSERT_TRUE(
      driver->ReadUntil([&] { return driver->checkpoint_lsn() >= end->position.engine_low(); }));
  EXPECT_LT(absl::Now() - began, absl::Seconds(20)) << "of a wal_sender_timeout of 600 s";
  EXPECT_EQ(driver->transactions.size(), 1u);
  EXPECT_EQ(Value(ids), next_id) << "asking assigned a transaction id";
}

// proves S16, S17, S55
TEST_F(PostgresBoundTest, ABoundInTheFutureIsReachedWhenTheServerGetsThere) {
  Exec("CREATE TABLE other (id int)");
  const auto driver = Streaming();
  const Lsn bound = std::stoull(Value("SELECT pg_current_wal_flush_lsn() - '0/0'")) + (1 << 20);
  ASSERT_TRUE(driver->source().StopAt(Bound(bound)).ok());
  driver->source().Prove(Position::Of(1, bound));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(driver->ReadOnce().ok());
    ASSERT_FALSE(driver->finished.has_value());
  }
  // Nothing that is captured; the bound lies in the middle of it.
  Exec("INSERT INTO other SELECT * FROM generate_series(1, 30000)");
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_TRUE(driver->transactions.empty());
  EXPECT_EQ(driver->checkpoint_lsn(), bound);
}

// proves S14
TEST_F(PostgresBoundTest, AWalsenderThatStandsStillProvesNothing) {
  const auto driver = Streaming();
  ASSERT_TRUE(driver->ReadUntilCaughtUp(*postgres_));
  const pid_t walsender = std::stoi(Value("SELECT pid FROM pg_stat_replication"));
  ASSERT_EQ(kill(walsender, SIGSTOP), 0);
  Exec("INSERT INTO t VALUES (1)");
  const std::optional<LogEnd> end = driver->source().SampleEnd();
  ASSERT_TRUE(end.has_value());
  ASSERT_TRUE(driver->source().StopAt({.bound = end->position, .time = std::nullopt}).ok());
  driver->source().Prove(end->position);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(driver->ReadOnce().ok());
    ASSERT_FALSE(driver->finished.has_value());
  }
  ASSERT_EQ(kill(walsender, SIGCONT), 0);
  ASSERT_TRUE(driver->ReadUntil([&] { return driver->finished.has_value(); }));
  EXPECT_EQ(driver->transactions.size(), 1u);
}

// proves S29
TEST_F(PostgresBoundTest, BoundsBeforeOrInsideTheSnapshotAreRefused) {
  Exec("CREATE TABLE t (id int PRIMARY KEY)");
  const Lsn flush = std::stoull(Value("SELECT pg_current_wal_flush_lsn() - '0/0'"));
  SourceDriver driver(FeedOf(*postgres_, {"public.t"}));
  ASSERT_TRUE(driver.source().StopAt(Bound(flush - 1)).ok());
  EXPECT_EQ(ReasonOf(driver.Open()), reason::kBoundBeforeSnapshot);
  EXPECT_EQ(Value("SELECT count(*) FROM pg_replication_slots"), "0") << "nothing was made";
  EXPECT_EQ(Value("SELECT count(*) FROM pg_publication"), "0");
  // Where nothing is durable yet, but the slot will begin behind it.
  ASSERT_TRUE(driver.source().StopAt(Bound(flush + 1)).ok());
  EXPECT_FALSE(driver.ReadUntilWhole());
  EXPECT_EQ(ReasonOf(driver.last_error), reason::kBoundBeforeSnapshot);
  EXPECT_TRUE(driver.snapshot_rows.empty());

  ASSERT_TRUE(driver.source().StopAt({}).ok());
  ASSERT_TRUE(driver.ReadUntilWhole());
  EXPECT_EQ(ReasonOf(driver.source().StopAt(Bound(driver.checkpoint_lsn() - 1))),
            reason::kBoundBeforeStart);
  EXPECT_GT(driver.checkpoint.snapshot_time_us(), 0);
  driver.Restart();
  ASSERT_TRUE(driver.source().StopAt(Bound(driver.checkpoint_lsn() - 1)).ok());
  EXPECT_EQ(ReasonOf(driver.Open()), reason::kBoundBeforeStart);
}

TEST_F(PostgresBoundTest, AForkIsRefusedForBoundsAlone) {
  v1::Checkpoint checkpoint;
  SourceDriver driver(FeedOf(*postgres_));
  EXPECT_TRUE(driver.source().CheckBounded(checkpoint).ok());
  checkpoint.mutable_postgres()->set_fork("YugabyteDB");
  const absl::Status refused = driver.source().CheckBounded(checkpoint);
  EXPECT_EQ(ReasonOf(refused), reason::kFeatureUnsupported);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("YugabyteDB"));
}

// What one connection showed, in order.
struct Shown {
  char kind = 0;  // Begin, Commit, keepalive
  Lsn commit = 0;
  Lsn end = 0;
};

// proves S44, S57, K1
TEST_F(PostgresBoundTest, KeepalivesOvertakeALargeTransactionAndNeverCutIt) {
  Exec("CREATE TABLE t (id int PRIMARY KEY, a text)");
  Exec("CREATE PUBLICATION p FOR TABLE t");
  Exec("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
  Exec("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 300000) i");
  postgres::Interruption interruption;
  const absl::Time deadline = absl::Now() + absl::Minutes(2) * testing::kDeadlineFactor;
  const postgres::Target target = postgres::TargetOf(FeedOf(*postgres_));
  auto connection =
      Connection::Open(target, Connection::Kind::kReplication, &interruption, deadline).value();
  ASSERT_TRUE(connection
                  ->StartCopy("START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', "
                              "publication_names 'p')",
                              "streaming", deadline)
                  .ok());

  // A client that takes nothing for a while: the server is in the middle of the transaction.
  ASSERT_TRUE(testing::WaitUntil(
      [&] {
        return Value(
                   "SELECT count(*) FROM pg_stat_activity WHERE wait_event = "
                   "'WalSenderWriteData'") == "1";
      },
      std::chrono::seconds(60)));
  postgres::PgoutputDecoder decoder;
  std::vector<Shown> shown;
  uint64_t rows = 0;
  const auto ask = [&] {
    postgres::StandbyStatus status;
    status.now_unix_us = absl::ToUnixMicros(absl::Now());
    status.reply_requested = true;
    ASSERT_TRUE(connection->SendCopy(EncodeStandbyStatus(status), deadline).ok());
  };
  ask();
  while ((shown.empty() || shown.back().kind != 'C') && absl::Now() < deadline) {
    std::string_view frame;
    const auto copy = connection->NextCopy(&frame);
    ASSERT_TRUE(copy.ok()) << copy.status();
    if (*copy != Connection::Copy::kData) {
      ASSERT_TRUE(connection->Wait(deadline).ok());
      continue;
    }
    const auto message = postgres::ParseReplicationMessage(frame).value();
    if (const auto* keepalive = std::get_if<postgres::Keepalive>(&message)) {
      shown.push_back({'k', 0, keepalive->end});
      continue;
    }
    const auto decoded = decoder.Decode(std::get<postgres::XLogData>(message).payload);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    if (const auto* begin = std::get_if<postgres::BeginMessage>(&*decoded)) {
      shown.push_back({'B', begin->commit_lsn, 0});
    } else if (const auto* commit = std::get_if<postgres::CommitMessage>(&*decoded)) {
      shown.push_back({'C', commit->commit_lsn, commit->end_lsn});
    } else if (std::get_if<postgres::InsertMessage>(&*decoded) != nullptr) {
      if (++rows % 50'000 == 0) ask();
    }
  }
  ASSERT_EQ(shown.back().kind, 'C');
  ASSERT_EQ(rows, 300'000u);
  const Lsn commit_lsn = shown.back().commit;
  const Lsn end_lsn = shown.back().end;

  // The trap: with commit LSNs, "a keepalive at the bound" ends the read with nothing delivered.
  const auto early = std::find_if(shown.begin(), shown.end(), [&](const Shown& one) {
    return one.kind == 'k' && one.end >= commit_lsn;
  });
  ASSERT_NE(early, shown.end()) << "no keepalive overtook the transaction: nothing is shown";
  EXPECT_LT(early - shown.begin(), static_cast<ptrdiff_t>(shown.size()) - 1);

  for (const Lsn bound : {commit_lsn, commit_lsn + 1, end_lsn - 1, end_lsn, end_lsn + 1}) {
    postgres::StopBound stop(commit_lsn - 1, bound);
    bool released = false;
    for (const Shown& one : shown) {
      if (stop.reached()) break;
      if (one.kind == 'k') stop.OnKeepalive(one.end);
      if (one.kind == 'B') stop.OnBegin(one.commit);
      if (one.kind != 'C') continue;
      const BoundDecision decision = stop.OnCommit(one.commit, one.end);
      released = decision == BoundDecision::kRelease || decision == BoundDecision::kReleaseAndStop;
    }
    EXPECT_EQ(released, end_lsn <= bound) << LsnText(bound);
    EXPECT_EQ(stop.reached(), bound <= end_lsn) << LsnText(bound);
  }
}

}  // namespace
}  // namespace tidemark::capture
