// Subscribers that read up to a bound, on a real server and a real database: exactly the commits at
// or before it, as an oracle tells them, and an end that nothing but proof explains.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>

#include "proto/position.h"
#include "tests/end_to_end/writers.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/seed.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using Record = v1::SubscribeResponse;

v1::SubscribeRequest Request() {
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_earliest();
  return request;
}

v1::SubscribeRequest UntilNow() {
  v1::SubscribeRequest request = Request();
  request.mutable_until()->mutable_now();
  return request;
}

const Record* Last(const RecordedStream& stream, Record::RecordCase kind) {
  const auto& events = stream.segments().back().events;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->record.record_case() == kind) return &event->record;
  }
  return nullptr;
}

uint64_t BoundOf(const RecordedStream& stream) {
  const Record* bound = Last(stream, Record::kBound);
  return bound == nullptr ? 0 : ParseLsn(bound->bound().native_position()).value_or(0);
}

std::vector<std::string> PositionsUpTo(const std::vector<OracleTransaction>& oracle, uint64_t end) {
  std::vector<std::string> positions;
  for (const OracleTransaction& transaction : oracle) {
    if (transaction.end_lsn <= end) {
      positions.push_back(Position::Of(1, transaction.end_lsn).Text());
    }
  }
  return positions;
}

class BoundedReadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LivePostgresOptions options;
    // No timeout of the server's explains an end within seconds.
    options.settings = {{"wal_sender_timeout", "600s"}, {"autovacuum", "off"}};
    auto postgres = LivePostgres::Create(options);
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql(Writers::CreateTables(kWriters));
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    const absl::Status started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << started;
    auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    oracle_ = *std::move(oracle);
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  std::string Value(const std::string& sql) { return postgres_->QueryValue(sql).value_or("?"); }

  // The time from the call to its end.
  milliseconds Read(const v1::SubscribeRequest& request, RecordedStream* stream) {
    LiveSubscriber subscriber(tidemark_->address(), request, stream);
    const auto began = steady_clock::now();
    subscriber.Connect();
    EXPECT_TRUE(subscriber.ReadToEnd(seconds(60))) << tidemark_->Diagnostics();
    EXPECT_EQ(stream->segments().back().end, "OK");
    return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
  }
  void ExpectBounded(const RecordedStream& stream, uint64_t bound) {
    const auto oracle = oracle_->Transactions();
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    const auto checked =
        CheckBounded(stream, fmt::format("{:X}", bound), PositionsUpTo(*oracle, bound));
    EXPECT_TRUE(checked.ok()) << checked;
  }

  static constexpr int kWriters = 3;
  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  std::unique_ptr<SqlOracle> oracle_;
};

// proves S14, S15, S16, S39, S45, S58
TEST_F(BoundedReadTest, AnIdleBoundEndsLongBeforeAnyTimeoutAndWithoutAWrite) {
  Sql("insert into shared select i from generate_series(1, 10) i");
  RecordedStream first("first");
  Read(UntilNow(), &first);
  ExpectBounded(first, BoundOf(first));
  EXPECT_EQ(first.finished_transactions(), 1u);

  const std::string ids = "select pg_snapshot_xmax(pg_current_snapshot())";
  const std::string next_id = Value(ids);
  milliseconds slowest{0};
  for (int i = 0; i < 5; ++i) {
    RecordedStream again(fmt::format("idle {}", i));
    slowest = std::max(slowest, Read(UntilNow(), &again));
    ExpectBounded(again, BoundOf(again));
  }
  std::cout << "slowest of five idle bounds: " << slowest.count() << " ms\n";
  EXPECT_LT(slowest, seconds(20));
  EXPECT_EQ(Value(ids), next_id) << "a bounded read wrote at the source";

  // After a segment switch the insert position lies where nothing is.
  Sql("select pg_switch_wal()");
  RecordedStream switched("segment switch");
  EXPECT_LT(Read(UntilNow(), &switched), seconds(20));
  ExpectBounded(switched, BoundOf(switched));
}

// proves S10, S34, S35, S50
TEST_F(BoundedReadTest, UnderWritersEveryBoundIsExact) {
  Writers writers(*postgres_, kWriters, 11);
  std::vector<std::unique_ptr<RecordedStream>> streams;
  for (int i = 0; i < 12; ++i) {
    writers.AllowTransactions(40);
    streams.push_back(std::make_unique<RecordedStream>(fmt::format("under writers {}", i)));
    Read(UntilNow(), streams.back().get());
  }
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  writers.Stop();
  for (const auto& stream : streams) ExpectBounded(*stream, BoundOf(*stream));

  // The same bounds afterwards, and those just before and inside of some commits.
  const size_t step = IsLong() ? 10 : 40;
  const auto oracle = oracle_->Transactions();
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  std::vector<uint64_t> bounds;
  for (const auto& stream : streams) bounds.push_back(BoundOf(*stream));
  for (size_t i = 0; i < oracle->size(); i += step) {
    const uint64_t end = (*oracle)[i].end_lsn;
    bounds.insert(bounds.end(), {end, end - 1, end - 40});
  }
  for (const uint64_t bound : bounds) {
    v1::SubscribeRequest request = Request();
    request.mutable_until()->set_native_position(
        fmt::format("{:X}/{:X}", bound >> 32, bound & UINT32_MAX));
    RecordedStream stream(fmt::format("up to {:X}", bound));
    Read(request, &stream);
    ExpectBounded(stream, bound);
  }
}

// proves S14, S16, S17
TEST_F(BoundedReadTest, AFutureBoundWaitsForTheServerWhateverItIsBusyWith) {
  Sql("create database elsewhere; ");
  const auto flush = ParseLsn(Value("select pg_current_wal_flush_lsn()"));
  ASSERT_TRUE(flush.ok()) << flush.status();
  const uint64_t bound = *flush + (2 << 20);
  v1::SubscribeRequest request = Request();
  request.mutable_until()->set_native_position(
      fmt::format("{:X}/{:X}", bound >> 32, bound & UINT32_MAX));
  request.mutable_progress_period()->set_nanos(100'000'000);
  RecordedStream stream("future");
  LiveSubscriber subscriber(tidemark_->address(), request, &stream);
  subscriber.Connect();
  Sql("insert into shared values (1)");
  ASSERT_TRUE(
      subscriber.ReadUntil([&] { return stream.finished_transactions() == 1; }, seconds(60)));
  // Records go by while the database is idle, and none of them is the end.
  const size_t so_far = stream.segments().back().events.size();
  ASSERT_TRUE(subscriber.ReadUntil(
      [&] { return stream.segments().back().events.size() > so_far + 5; }, seconds(60)));
  EXPECT_EQ(Last(stream, Record::kClosing), nullptr);
  // Another database of the same server.
  auto elsewhere = postgres_->Connect("elsewhere");
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  ASSERT_TRUE(
      (*elsewhere)->Exec("create table t as select i from generate_series(1, 60000) i").ok());
  ASSERT_TRUE(subscriber.ReadToEnd(seconds(60))) << tidemark_->Diagnostics();
  ExpectBounded(stream, bound);
}

// proves S14
TEST_F(BoundedReadTest, AWalsenderThatStandsStillEndsNothing) {
  const pid_t walsender =
      std::stoi(Value("select active_pid from pg_replication_slots where slot_name = "
                      "'tidemark_main'"));
  ASSERT_EQ(kill(walsender, SIGSTOP), 0);
  Sql("insert into shared values (1)");
  v1::SubscribeRequest request = UntilNow();
  request.mutable_progress_period()->set_nanos(100'000'000);
  RecordedStream stream("stopped walsender");
  LiveSubscriber subscriber(tidemark_->address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(
      subscriber.ReadUntil([&] { return Last(stream, Record::kBound) != nullptr; }, seconds(60)));
  const size_t so_far = stream.segments().back().events.size();
  ASSERT_TRUE(subscriber.ReadUntil(
      [&] { return stream.segments().back().events.size() > so_far + 10; }, seconds(60)));
  EXPECT_EQ(Last(stream, Record::kClosing), nullptr);
  ASSERT_EQ(kill(walsender, SIGCONT), 0);
  ASSERT_TRUE(subscriber.ReadToEnd(seconds(60))) << tidemark_->Diagnostics();
  ExpectBounded(stream, BoundOf(stream));
  EXPECT_EQ(stream.finished_transactions(), 1u);
}

// proves S23: the client keeps the bound over a restart of the server.
TEST_F(BoundedReadTest, ABoundIsKeptOverARestart) {
  Sql("insert into shared values (1)");
  const auto flush = ParseLsn(Value("select pg_current_wal_flush_lsn()"));
  ASSERT_TRUE(flush.ok()) << flush.status();
  const uint64_t bound = *flush + (1 << 20);
  v1::SubscribeRequest request = Request();
  request.mutable_until()->set_native_position(
      fmt::format("{:X}/{:X}", bound >> 32, bound & UINT32_MAX));
  RecordedStream stream("restarted");
  LiveSubscriber subscriber(tidemark_->address(), request, &stream);
  subscriber.Connect();
  ASSERT_TRUE(
      subscriber.ReadUntil([&] { return stream.finished_transactions() == 1; }, seconds(60)));
  tidemark_->Kill9();
  ASSERT_TRUE(subscriber.ReadToEnd(seconds(60)));
  EXPECT_NE(stream.segments().back().end, "OK");
  Sql("insert into shared select i, i, repeat('x', 100) from generate_series(100, 20000) i");
  Sql("insert into shared values (2)");
  const absl::Status started = tidemark_->Start();
  ASSERT_TRUE(started.ok()) << started;
  subscriber.Connect();
  ASSERT_TRUE(subscriber.ReadToEnd(seconds(60))) << tidemark_->Diagnostics();
  ExpectBounded(stream, bound);
}

}  // namespace
}  // namespace tidemark::testing
