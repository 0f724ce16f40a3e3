// Power is lost at every step of the ingest loop, on a disk that forgets what was not synced, with
// a real database as the source. After each loss the source's confirmed position lies within what
// the disk kept, and in the end a subscriber that followed across all of it has seen every commit
// once, whole, in order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <random>
#include <vector>

#include "proto/position.h"
#include "store/store.h"
#include "tests/testing/crash_file_system.h"
#include "tests/testing/guarantees.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/seed.h"
#include "tests/testing/sql_oracle.h"
#include "tests/testing/test_server.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;

constexpr int kLosses = 6;

class CrashPointsTest : public ::testing::TestWithParam<IngestStep> {
 protected:
  void SetUp() override {
    std::cout << "seed " << SeedFromEnvironment() << "\n";
    LivePostgresOptions options;
    options.fsync = true;
    auto postgres = LivePostgres::Create(options);
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    Sql("create table item (id bigint primary key, n int); insert into item values (0, 0)");
    ServerOptions server_options;
    server_options.store_env = disk_.env();
    server_options.observer = [this](const std::string&) {
      return [this](IngestStep step) { return At(step); };
    };
    server_ = std::make_unique<TestServer>(
        fmt::format("  - name: main\n    postgres: {{host: 127.0.0.1, port: {}, database: "
                    "postgres, user: postgres, sslmode: disable}}\n",
                    postgres_->port()),
        server_options);
  }

  void Sql(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }

  // The observer: loses power when the step was reached as often as was asked for.
  absl::Status At(IngestStep step) {
    if (step != GetParam() || steps_to_go_ == 0 || --steps_to_go_ > 0) return absl::OkStatus();
    disk_.LosePower();
    lost_ = true;
    return absl::UnavailableError("power was lost");
  }

  // Runs the server until power is lost; what it confirmed until then is within what the disk kept.
  void RunUntilPowerIsLost(int steps, const std::function<void()>& write) {
    lost_ = false;
    steps_to_go_ = steps;
    ASSERT_TRUE(WaitUntil(
        [&] {
          if (!lost_) write();
          return lost_.load();
        },
        seconds(60), [&] { return server_->Log(); }));
    server_->Stop(absl::Seconds(1));
    const auto confirmed = postgres_->QueryValue(
        "select confirmed_flush_lsn from pg_replication_slots where slot_name = 'tidemark_main'");
    ASSERT_TRUE(confirmed.ok()) << confirmed.status();
    disk_.PowerOn(random_());
    looks_.push_back({ParseLsn(*confirmed).value_or(0), DurableLsn()});
    ASSERT_TRUE(CheckDurable(looks_).ok()) << CheckDurable(looks_);
  }

  uint64_t DurableLsn() {
    store::StoreOptions options;
    options.path = server_->store_dir().string();
    options.env = disk_.env();
    const auto store = store::Store::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    const auto feed = store.ok() ? (*store)->OpenFeed("main", "postgres") : store.status();
    EXPECT_TRUE(feed.ok()) << feed.status();
    if (!feed.ok()) return 0;
    const auto position = Position::FromBytes((*feed)->checkpoint().position());
    return position.ok() ? position->engine_low() : 0;
  }

  ScratchDir scratch_{"links"};
  CrashFileSystem disk_{scratch_.path()};
  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<TestServer> server_;
  std::vector<DurabilityLook> looks_;
  std::mt19937_64 random_{SeedFromEnvironment()};
  std::atomic<int> steps_to_go_ = 0;
  std::atomic<bool> lost_ = false;
};

// proves R24, R63, S25, S38, S51, S54, E7, E8
TEST_P(CrashPointsTest, LoseNothingAndConfirmNothingEarly) {
  ASSERT_TRUE(server_->Start().ok());
  const auto snapshot_is_whole = [&] {
    return server_->server().feeds().feeds().front()->store().snapshot_whole();
  };
  ASSERT_TRUE(WaitUntil(snapshot_is_whole, seconds(60), [&] { return server_->Log(); }));
  auto oracle = SqlOracle::Create(postgres_->conninfo(), "oracle");
  ASSERT_TRUE(oracle.ok()) << oracle.status();
  auto session = postgres_->Connect();
  ASSERT_TRUE(session.ok()) << session.status();

  v1::SubscribeRequest request;
  request.set_feed("main");
  request.mutable_start()->mutable_earliest();
  RecordedStream recording("crash points");
  int id = 0;
  for (int loss = 0; loss < kLosses; ++loss) {
    LiveSubscriber subscriber(server_->server().address(), request, &recording);
    subscriber.Connect();
    RunUntilPowerIsLost(1 + static_cast<int>(random_() % 5), [&] {
      ++id;
      const absl::Status done =
          (*session)->Exec(fmt::format("begin; insert into item values ({0}, 1); update item set n "
                                       "= n + 1 where id in (0, {0}); commit",
                                       id));
      ASSERT_TRUE(done.ok()) << done;
    });
    ASSERT_FALSE(HasFatalFailure()) << "loss " << loss;
    subscriber.Disconnect();
    ASSERT_TRUE(server_->Start().ok());
  }

  const auto committed = (*oracle)->Transactions();
  ASSERT_TRUE(committed.ok()) << committed.status();
  LiveSubscriber subscriber(server_->server().address(), request, &recording);
  ASSERT_TRUE(subscriber.FollowUntil(
      [&] { return recording.finished_transactions() >= committed->size(); }, seconds(60)))
      << server_->Log();
  EXPECT_TRUE(CheckComplete(recording, *committed).ok()) << CheckComplete(recording, *committed);
}

std::string StepName(const ::testing::TestParamInfo<IngestStep>& info) {
  static constexpr const char* kNames[] = {"Read", "Appended", "Published", "Synced", "Confirmed"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(At, CrashPointsTest,
                         ::testing::Values(IngestStep::kRead, IngestStep::kAppended,
                                           IngestStep::kPublished, IngestStep::kSynced,
                                           IngestStep::kConfirmed),
                         StepName);

}  // namespace
}  // namespace tidemark::testing
