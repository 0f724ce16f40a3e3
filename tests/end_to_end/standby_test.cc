// A standby as the source of a server, and a failover that no subscriber notices.
#include <gmock/gmock.h>

#include <utility>

#include "tests/end_to_end/row_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kReading = v1::TABLE_FOLLOW_STATE_READING;
constexpr v1::TableFollowState kFailed = v1::TABLE_FOLLOW_STATE_FAILED;

// `postgres_` is the primary. Skips what the version cannot do.
class StandbyTest : public TableFixture {
 protected:
  void SetUpPair(int version, const std::vector<std::pair<std::string, std::string>>& settings) {
    SetUpPostgres();
    if (std::stoi(postgres_->QueryValue("show server_version_num").value()) < version * 10'000) {
      GTEST_SKIP() << "needs PostgreSQL " << version;
    }
    Exec({"select pg_create_physical_replication_slot('standby')"});
    std::vector<std::pair<std::string, std::string>> all = {{"primary_slot_name", "standby"},
                                                            {"hot_standby_feedback", "on"},
                                                            {"wal_receiver_status_interval", "1"},
                                                            {"max_standby_streaming_delay", "0"}};
    all.insert(all.end(), settings.begin(), settings.end());
    auto standby = LivePostgres::CreateStandby(*postgres_, all);
    ASSERT_TRUE(standby.ok()) << standby.status();
    standby_ = *std::move(standby);
  }

  void MakeTable() {
    Exec({"create table big (id int primary key, v int, note text)",
          "insert into big select i, 0, repeat('n', 50) from generate_series(0, 9999) i"});
  }

  void StartServerOnStandby() {
    LiveTidemarkOptions options;
    options.postgres_lines = {"catalog_period: 1s"};
    tidemark_ = std::make_unique<LiveTidemark>(*standby_, std::move(options));
    ASSERT_TRUE(tidemark_->Launch().ok());
    ASSERT_TRUE(WaitUntil(
        [&] {
          // Its slot waits for what the primary says of its transactions.
          Exec({"select pg_log_standby_snapshot()"});
          return tidemark_->StatusText().find("SOURCE_STATE_STREAMING") != std::string::npos;
        },
        kDeadline, [&] { return tidemark_->Diagnostics(); }));
    tidemark_->Kill9();
    StartServer();
  }

  void ExpectEqualTables() {
    CatchUp();
    EXPECT_TRUE(Here("public.big") == There("public.big")) << tidemark_->Diagnostics();
    const auto verified = tidemark_->Run({"verify", "main", "public.big"});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  }

  std::unique_ptr<LivePostgres> standby_;
};

// Reading beside the stream rests on what a snapshot sees, and a standby says less of that than a
// primary. Needs PostgreSQL 16.
TEST_F(StandbyTest, TablesAreReadBesideTheStreamUnderWriters) {  // proves R55, H4
  SetUpPair(16, {});
  if (IsSkipped() || HasFatalFailure()) return;
  Exec({"create publication tidemark_main for table marker"});
  StartServerOnStandby();
  if (HasFatalFailure()) return;
  MakeTable();
  ASSERT_TRUE(WaitForState("public.big", kFailed,
                           "run on the primary ALTER PUBLICATION \"tidemark_main\" ADD TABLE"));
  // What it wrote before the table is published is never sent.
  auto writer = postgres_->Connect();
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Exec("begin; update big set v = 1 where id < 100").ok());
  Exec({"alter publication tidemark_main add table big"});
  ASSERT_TRUE(WaitForState("public.big", kReading, "waiting for transaction"));
  ASSERT_TRUE((*writer)->Exec("update big set v = 2 where id between 50 and 150; commit").ok());
  {
    const RowWriter changes(*postgres_, 10'000, SeedFromEnvironment());
    ASSERT_TRUE(WaitForState("public.big", kFollowed, "added to the publication"));
    ASSERT_TRUE(StartSnapshot("public.big").ok());
    ASSERT_TRUE(WaitForState("public.big", kFollowed, "asked for"));
    const auto verified = tidemark_->Run({"verify", "main", "public.big"});
    EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  }
  ExpectEqualTables();
  const auto bounded =
      tidemark_->Run({"tail", "main", "--from", "earliest", "--until", "now", "--format", "jsonl"});
  EXPECT_EQ(bounded->exit_code, 0) << bounded->err;
  EXPECT_THAT(bounded->out, HasSubstr("big"));
  // Without a key, what the snapshot sees would have to be known of each transaction.
  Exec({"create table k (a int)", "alter table k replica identity full",
        "alter publication tidemark_main add table k"});
  ASSERT_TRUE(WaitForState("public.k", kFailed, "TABLE_UNREADABLE"));
}

// proves B067, S48: the standby kept a copy of the slot, and had everything that was captured: the
// feed goes on in its generation, and nothing is read again. Needs PostgreSQL 17.
TEST_F(StandbyTest, AFailoverWithASyncedSlotIsNoBreak) {
  SetUpPair(17, {{"sync_replication_slots", "on"}});
  if (IsSkipped() || HasFatalFailure()) return;
  MakeTable();
  Exec({"alter system set synchronized_standby_slots = 'standby'", "select pg_reload_conf()"});
  StartServer();
  CatchUp();
  ASSERT_TRUE(WaitUntil(
      [&] {
        // It is ready once the primary's has come to where it was begun.
        Exec({"insert into marker values (0) on conflict (n) do update set n = 0",
              "select pg_log_standby_snapshot()"});
        return standby_
                   ->QueryValue(
                       "select count(*) from pg_replication_slots where slot_name = "
                       "'tidemark_main' and synced and not temporary")
                   .value() == "1";
      },
      kDeadline, [&] { return standby_->Log(); }));
  Exec({"update big set v = 1 where id < 137"});
  CatchUp();
  tidemark_->Kill9();
  ASSERT_TRUE(postgres_->Stop(StopMode::kImmediate).ok());
  ASSERT_TRUE(standby_->Promote().ok());
  PointAt(*standby_);
  std::swap(postgres_, standby_);
  Exec({"update big set v = 2 where id between 100 and 200"});
  StartServer();
  ExpectEqualTables();
  const v1::FeedStatus status = StatusOfFeed();
  EXPECT_EQ(status.generation(), 1u);
  EXPECT_FALSE(status.has_last_gap()) << status.last_gap().ShortDebugString();
  EXPECT_THAT(tidemark_->Diagnostics(), HasSubstr("left timeline 1 for timeline 2 at"));
}

}  // namespace
}  // namespace tidemark::testing
