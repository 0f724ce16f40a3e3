// A source that ends: exactly at its bound, FINISHED for good, with its slot kept, and nothing else
// on the database touched.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "proto/position.h"
#include "tests/end_to_end/writers.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr int kWriters = 3;
constexpr char kFinished[] = "SOURCE_STATE_FINISHED";

class StopAtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql(Writers::CreateTables(kWriters));
    auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    oracle_ = *std::move(oracle);
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  std::string Value(const std::string& sql) { return postgres_->QueryValue(sql).value_or("?"); }
  std::string Slot(const std::string& column) {
    return Value("select " + column +
                 " from pg_replication_slots where slot_name = "
                 "'tidemark_main'");
  }
  // What nobody but its owner may change.
  std::string ForeignSlots() {
    return Value(
        "select string_agg(concat_ws(' ', slot_name, plugin, slot_type, restart_lsn, "
        "confirmed_flush_lsn, active), ',' order by slot_name) from pg_replication_slots "
        "where slot_name in ('foreign_logical', 'foreign_physical')");
  }
  ::testing::AssertionResult WaitUntilSlotIsFree() {
    return WaitUntil([&] { return Slot("active") == "f"; }, seconds(30),
                     [&] { return Slot("active_pid"); });
  }

  // The log from its beginning up to the bound equals what the source committed up to there.
  void ExpectLogUpTo(LiveTidemark& tidemark, const std::string& bound) {
    v1::SubscribeRequest request;
    request.set_feed("main");
    request.mutable_start()->mutable_earliest();
    request.mutable_until()->mutable_now();
    RecordedStream stream("up to the bound");
    LiveSubscriber subscriber(tidemark.address(), request, &stream);
    subscriber.Connect();
    ASSERT_TRUE(subscriber.ReadToEnd(seconds(60))) << tidemark.Diagnostics();
    const auto oracle = oracle_->Transactions();
    ASSERT_TRUE(oracle.ok()) << oracle.status();
    const auto end = ParseLsn(bound);
    ASSERT_TRUE(end.ok()) << bound;
    std::vector<std::string> positions;
    for (const OracleTransaction& transaction : *oracle) {
      if (transaction.end_lsn <= *end) {
        positions.push_back(Position::Of(1, transaction.end_lsn).Text());
      }
    }
    const auto checked = CheckBounded(stream, bound, positions);
    EXPECT_TRUE(checked.ok()) << checked;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<SqlOracle> oracle_;
};

// proves S22, S26, S28, S34, S50
TEST_F(StopAtTest, NowByCallEndsThereForGoodAndIsLiftedWithoutLossOrRepeat) {
  LiveTidemark tidemark(*postgres_);
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  Writers writers(*postgres_, kWriters, 5);
  writers.AllowTransactions(600);
  ASSERT_TRUE(WaitUntil([&] { return writers.committed() > 100; }, seconds(60)));
  const auto stop = tidemark.Run({"stop", "main", "--at", "now"});
  ASSERT_TRUE(stop.ok()) << stop.status();
  ASSERT_EQ(stop->exit_code, 0) << stop->err;
  const std::string bound = stop->out.substr(0, stop->out.find_first_of(" \n"));
  absl::Status finished = tidemark.WaitForStatus(kFinished);
  ASSERT_TRUE(finished.ok()) << finished;
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  writers.Stop();
  Sql("insert into shared values (1000001)");

  ASSERT_TRUE(WaitUntilSlotIsFree()) << "the producer did not end";
  EXPECT_EQ(Slot("wal_status"), "reserved");
  EXPECT_EQ(Value("select '" + Slot("confirmed_flush_lsn") + "'::pg_lsn <= '" + bound + "'"), "t");
  ExpectLogUpTo(tidemark, bound);
  const auto text = tidemark.Run({"status", "main"});
  EXPECT_THAT(text->out, HasSubstr("stop at now: " + bound + ", finished"));

  // FINISHED, over a restart and a death.
  ASSERT_EQ(tidemark.Stop().value_or(-1), 0);
  ASSERT_TRUE(tidemark.Launch().ok());
  ASSERT_TRUE(tidemark.WaitForStatus(kFinished).ok()) << tidemark.Diagnostics();
  tidemark.Kill9();
  ASSERT_TRUE(tidemark.Launch().ok());
  ASSERT_TRUE(tidemark.WaitForStatus(kFinished).ok()) << tidemark.Diagnostics();
  EXPECT_EQ(Slot("active"), "f") << "no stream is opened again";
  ExpectLogUpTo(tidemark, bound);

  const auto lifted = tidemark.Run({"stop", "main", "--at", "never"});
  ASSERT_EQ(lifted->exit_code, 0) << lifted->err;
  ASSERT_TRUE(tidemark.WaitUntilStreaming().ok()) << tidemark.Diagnostics();
  ExpectLogUpTo(tidemark, Value("select pg_current_wal_flush_lsn()"));
}

// proves S24, S25, S26, S27, S28, S40
TEST_F(StopAtTest, FourEndingsKeepTheSlotAndTouchNoOther) {
  Sql("select pg_create_logical_replication_slot('foreign_logical', 'test_decoding')");
  Sql("select pg_create_physical_replication_slot('foreign_physical', true)");
  const std::string foreign = ForeignSlots();
  LiveTidemark tidemark(*postgres_);
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  const auto durable_at_least = [&](const std::string& lsn) {
    return WaitUntil(
        [&] {
          return Value("select '" + Slot("confirmed_flush_lsn") + "' >= '" + lsn + "'") == "t";
        },
        seconds(60), [&] { return Slot("confirmed_flush_lsn") + " instead of " + lsn; });
  };
  const auto write = [&](int id) {
    Sql(fmt::format("insert into shared values ({})", id));
    return Value("select pg_current_wal_flush_lsn()");
  };

  // Ended in order: what is durable here was the last word, and the slot is free at once.
  std::string lsn = write(1);
  ASSERT_TRUE(durable_at_least(lsn));
  EXPECT_EQ(Slot("active"), "t");
  ASSERT_EQ(tidemark.Stop().value_or(-1), 0);
  ASSERT_TRUE(WaitUntilSlotIsFree());
  EXPECT_TRUE(durable_at_least(lsn));
  EXPECT_EQ(ForeignSlots(), foreign);

  // Killed: the slot is there, and the next life takes it up, however soon it comes.
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  tidemark.Kill9();
  lsn = write(2);
  EXPECT_EQ(Value("select count(*) from pg_replication_slots where slot_name <> 'witness'"), "4");
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  ASSERT_TRUE(durable_at_least(lsn));
  EXPECT_EQ(ForeignSlots(), foreign);

  // The database ends in order: nobody holds it up.
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(postgres_->Restart().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(20));
  lsn = write(3);
  ASSERT_TRUE(durable_at_least(lsn)) << tidemark.Diagnostics();

  // Finished: confirmed up to the bound, never beyond.
  const auto stop = tidemark.Run({"stop", "main", "--at", "now"});
  ASSERT_EQ(stop->exit_code, 0) << stop->err;
  ASSERT_TRUE(tidemark.WaitForStatus(kFinished).ok()) << tidemark.Diagnostics();
  ASSERT_TRUE(WaitUntilSlotIsFree());
  const std::string bound = stop->out.substr(0, stop->out.find_first_of(" \n"));
  EXPECT_TRUE(durable_at_least(lsn));
  EXPECT_EQ(Value("select '" + Slot("confirmed_flush_lsn") + "' <= '" + bound + "'::pg_lsn"), "t");
  write(4);
  EXPECT_EQ(Slot("slot_name"), "tidemark_main");
  EXPECT_EQ(Value("select count(*) from pg_replication_slots where slot_name <> 'witness'"), "4");
}

// proves S03, S29
TEST_F(StopAtTest, APositionThatCannotBeIsRefusedAndSaysWhy) {
  LiveTidemark tidemark(*postgres_);
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  Sql("insert into shared values (1)");
  for (const auto& [at, reason] :
       std::vector<std::pair<std::string, std::string>>{{"0/0", "REQUEST_INVALID"},
                                                        {"FFFFFFFF/FFFFFFFF", "REQUEST_INVALID"},
                                                        {"1/2/3", "REQUEST_INVALID"},
                                                        {"0/1", "BOUND_BEFORE_START"}}) {
    const auto refused = tidemark.Run({"stop", "main", "--at", at});
    EXPECT_EQ(refused->exit_code, 1) << at;
    EXPECT_THAT(refused->err, HasSubstr(reason)) << at;
  }
  const auto tail = tidemark.Run({"tail", "main", "--from", "earliest", "--until", "0/1"});
  EXPECT_THAT(tail->err, HasSubstr("BOUND_BEFORE_START"));
  EXPECT_TRUE(tidemark.WaitUntilStreaming().ok());

  LiveTidemarkOptions options;
  options.feed_lines = {"stop_at: 0/0"};
  LiveTidemark misconfigured(*postgres_, options);
  ASSERT_TRUE(misconfigured.Launch().ok());
  EXPECT_EQ(misconfigured.process().WaitForExit(seconds(30)).value_or(-1), 2);
  EXPECT_THAT(misconfigured.Diagnostics(), HasSubstr("stands for no place"));
}

class StopAtCrashTest : public StopAtTest, public ::testing::WithParamInterface<std::string> {};

// proves S20, S23, S38
TEST_P(StopAtCrashTest, IsExactWhereverTheServerDies) {
  LiveTidemark tidemark(*postgres_);
  ASSERT_TRUE(tidemark.Start().ok()) << tidemark.Diagnostics();
  Writers writers(*postgres_, kWriters, 17);
  writers.AllowTransactions(100);
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  const std::string bound = Value("select pg_current_wal_flush_lsn() + 20000");
  const auto stop = tidemark.Run({"stop", "main", "--at", bound});
  ASSERT_EQ(stop->exit_code, 0) << stop->err;
  ASSERT_EQ(tidemark.Stop().value_or(-1), 0);
  writers.AllowTransactions(300);
  ASSERT_TRUE(WaitUntil([&] { return writers.IsIdle(); }, seconds(60)));
  writers.Stop();
  Sql("insert into shared select i + 2000000 from generate_series(1, 1000) i");

  // Dies at this step again and again, until there is nothing left to do.
  bool finished = false;
  for (int life = 0; life < 40 && !finished; ++life) {
    ASSERT_TRUE(
        tidemark.Launch({"--crash-at", GetParam() + ":" + std::to_string(1 + life % 3)}).ok());
    ASSERT_TRUE(WaitUntil(
        [&] {
          if (!tidemark.process().IsRunning()) return true;
          finished = tidemark.StatusText().find(kFinished) != std::string::npos;
          return finished;
        },
        seconds(60), [&] { return tidemark.Diagnostics(); }));
    if (!finished) continue;
    // It may have died right then; FINISHED is what the store says.
    tidemark.Kill9();
  }
  ASSERT_TRUE(tidemark.Launch().ok());
  ASSERT_TRUE(tidemark.WaitForStatus(kFinished).ok()) << tidemark.Diagnostics();
  ExpectLogUpTo(tidemark, bound);
}

INSTANTIATE_TEST_SUITE_P(At, StopAtCrashTest,
                         ::testing::Values("read", "appended", "published", "synced", "confirmed"));

}  // namespace
}  // namespace tidemark::testing
