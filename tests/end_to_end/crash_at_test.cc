// tidemarkd --crash-at: the process dies at each step of the loop, and the next one goes on as if
// nothing had been.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

// As a shell says it: SIGKILL.
constexpr int kKilled = 137;

class CrashAtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    ASSERT_TRUE(postgres_->Exec("create table item (id bigserial primary key, n int)").ok());
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
  }

  absl::Status Commit() {
    const absl::Status status =
        postgres_->Exec("insert into item (n) select generate_series(1, 3)");
    if (status.ok()) ++commits_;
    return status;
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  uint64_t commits_ = 0;
};

// proves B161, O3
TEST_F(CrashAtTest, DiesAtEveryStepAndGoesOnWithoutLossOrRepeat) {
  absl::Status started = tidemark_->Start();
  ASSERT_TRUE(started.ok()) << started;
  auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_earliest();
  RecordedStream recording("crash at");
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  const auto has_all = [&] { return recording.finished_transactions() >= commits_; };

  for (const std::string step : {"read", "appended", "published", "synced", "confirmed"}) {
    ASSERT_EQ(tidemark_->Stop().value_or(-1), 0) << tidemark_->Diagnostics();
    ASSERT_TRUE(tidemark_->Launch({"--crash-at", step + ":3"}).ok());
    // Every commit brings the loop on, one batch or more.
    ASSERT_TRUE(WaitUntil(
        [&] {
          EXPECT_TRUE(Commit().ok());
          return !tidemark_->process().IsRunning();
        },
        seconds(60), [&] { return step + ": " + tidemark_->Diagnostics(); }));
    const auto exit_code = tidemark_->process().WaitForExit(seconds(10));
    ASSERT_TRUE(exit_code.ok()) << exit_code.status();
    EXPECT_EQ(*exit_code, kKilled) << step << ": " << tidemark_->Diagnostics();
    ASSERT_TRUE(Commit().ok()) << "while nobody reads";
    started = tidemark_->Start();
    ASSERT_TRUE(started.ok()) << step << ": " << started;
    ASSERT_TRUE(Commit().ok());
    ASSERT_TRUE(subscriber.FollowUntil(has_all, seconds(60)))
        << step << ": " << tidemark_->Diagnostics();
  }
  const auto committed = (*oracle)->Transactions();
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(committed->size(), commits_);
  const absl::Status complete = CheckComplete(recording, *committed);
  EXPECT_TRUE(complete.ok()) << complete;
}

TEST_F(CrashAtTest, AStepThatThereIsNotIsRefusedBeforeAnythingIsTouched) {
  ASSERT_TRUE(tidemark_->Launch({"--crash-at", "written:1"}).ok());
  EXPECT_EQ(tidemark_->process().WaitForExit(seconds(30)).value_or(-1), 2);
  EXPECT_THAT(tidemark_->Diagnostics(), ::testing::HasSubstr("--crash-at expects STEP:N"));
  EXPECT_FALSE(std::filesystem::exists(tidemark_->store_dir()));
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
          .value_or(""),
      "0");
}

}  // namespace
}  // namespace tidemark::testing
