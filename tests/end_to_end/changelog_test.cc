// A feed from a changelog, as users run it: the SQL of deploy/, a configuration, the server killed
// at every step of its loop, and a subscriber that in the end has what the tables have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/testing/built_paths.h"
#include "tests/testing/live_postgres.h"
#include "tests/testing/live_subscriber.h"
#include "tests/testing/live_tidemark.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"
#include "tests/testing/wait_until.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// As a shell says it: SIGKILL.
constexpr int kKilled = 137;

// Text of the row by text of the key.
using State = std::map<std::string, std::string>;

class ChangelogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto postgres = LivePostgres::Create();
    ASSERT_TRUE(postgres.ok()) << postgres.status();
    postgres_ = *std::move(postgres);
    RunPsql(SourceDir() / "deploy/sql/changelog/create.sql");
    Exec("create table item (id int primary key, n int)");
    Exec("select tidemark.changelog_install('{public.item}')");
    // No more than SELECT, and DELETE to trim.
    Exec(
        "create role reader login; grant usage on schema tidemark to reader; "
        "grant select, delete on tidemark.changelog to reader");
    tidemark_ = std::make_unique<LiveTidemark>(*postgres_);
    std::ofstream(tidemark_->config_file()) << fmt::format(
        "listen: {}\nstore:\n  path: {}\nfeeds:\n  - name: audit\n    changelog:\n"
        "      interval: 20ms\n      page_rows: 7\n      trim: true\n      postgres:\n"
        "        host: 127.0.0.1\n        port: {}\n        database: postgres\n"
        "        user: reader\n",
        tidemark_->address(), tidemark_->store_dir().string(), postgres_->port());
  }

  // As a person does.
  void RunPsql(const std::filesystem::path& file) {
    const ScratchDir scratch("psql");
    ProcessOptions psql;
    psql.output_dir = scratch.path();
    psql.argv = {"psql", "-X", postgres_->conninfo(), "-v", "ON_ERROR_STOP=1", "-1", "-f", file};
    const auto ran = RunCommand(std::move(psql), seconds(60));
    ASSERT_TRUE(ran.ok()) << ran.status();
  }
  void Exec(const std::string& sql) {
    const absl::Status done = postgres_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done << " in " << sql;
  }
  // A transaction of `rows` rows, among them updates, deletes and changes of the key.
  void Commit(int rows = 3) {
    ++commits_;
    Exec(
        fmt::format("insert into item select {0} * 1000 + i, i from generate_series(1, {1}) i; "
                    "update item set n = n + 1 where id % 5 = 0; "
                    "update item set id = id + 500000 where id = ({0} - 2) * 1000 + 1; "
                    "delete from item where id = ({0} - 1) * 1000 + 2",
                    commits_, rows));
  }
  State Held() {
    const auto rows = postgres_->Query(
        "select jsonb_build_object('id', id)::text, to_jsonb(item)::text from item");
    EXPECT_TRUE(rows.ok()) << rows.status();
    State held;
    for (const auto& row : rows->rows) held[*row[0]] = *row[1];
    return held;
  }
  static State Folded(const RecordedStream& recording) {
    const absl::StatusOr<FoldedRows> folded = Fold(recording);
    EXPECT_TRUE(folded.ok()) << folded.status();
    State state;
    if (!folded.ok() || !folded->contains("public.item")) return state;
    for (const auto& [key, columns] : folded->at("public.item")) {
      state[columns.at("key").value()] = columns.at("row").value();
    }
    return state;
  }
  void WaitForStatus(const std::string& text) {
    std::string last;
    EXPECT_TRUE(WaitUntil(
        [&] {
          last = tidemark_->StatusText("audit");
          return last.find(text) != std::string::npos;
        },
        seconds(60), [&] { return text + " in " + last + tidemark_->Diagnostics(); }));
  }

  std::unique_ptr<LivePostgres> postgres_;
  std::unique_ptr<LiveTidemark> tidemark_;
  int commits_ = 0;
};

// proves O3, P29, P32: no loss, no repeat, whatever step the server dies at.
TEST_F(ChangelogTest, DiesAtEveryStepAndGoesOnWithoutLossOrRepeat) {
  ASSERT_TRUE(tidemark_->Launch().ok());
  WaitForStatus("SOURCE_STATE_STREAMING");
  v1::SubscribeRequest request;
  request.set_feed("audit");
  request.mutable_start()->mutable_earliest();
  RecordedStream recording("changelog");
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  const auto has_all = [&] {
    return recording.finished_transactions() >= static_cast<uint64_t>(commits_);
  };
  for (const std::string step : {"read", "appended", "synced", "published", "confirmed"}) {
    ASSERT_EQ(tidemark_->Stop().value_or(-1), 0) << tidemark_->Diagnostics();
    ASSERT_TRUE(tidemark_->Launch({"--crash-at", step + ":3"}).ok());
    ASSERT_TRUE(WaitUntil(
        [&] {
          Commit(20);
          return !tidemark_->process().IsRunning();
        },
        seconds(60), [&] { return step + ": " + tidemark_->Diagnostics(); }));
    EXPECT_EQ(tidemark_->process().WaitForExit(seconds(10)).value_or(-1), kKilled) << step;
    Commit();
    ASSERT_TRUE(tidemark_->Launch().ok());
    Commit();
    ASSERT_TRUE(subscriber.FollowUntil(has_all, seconds(60)))
        << step << ": " << tidemark_->Diagnostics();
  }
  EXPECT_EQ(recording.finished_transactions(), static_cast<uint64_t>(commits_));
  const State held = Held();
  EXPECT_EQ(Folded(recording), held);

  // Who comes now gets the rows, and they are the same.
  v1::SubscribeRequest from_rows;
  from_rows.set_feed("audit");
  RecordedStream rows("rows of the changelog");
  LiveSubscriber late(tidemark_->address(), from_rows, &rows);
  late.Connect();
  ASSERT_TRUE(late.ReadUntilLive(seconds(30)));
  EXPECT_EQ(Folded(rows), held);
  // What is durable here is gone there.
  EXPECT_TRUE(WaitUntil(
      [&] {
        return postgres_->QueryValue("select count(*) from tidemark.changelog").value_or("") == "0";
      },
      seconds(30)));
  WaitForStatus("rows_trimmed");
}

// proves P08, P29: it is read by pages of 7 rows; the recording checks that a cursor stands behind
// whole transactions alone.
TEST_F(ChangelogTest, ATransactionOfManyPagesIsOneWithOneCursor) {
  ASSERT_TRUE(tidemark_->Launch().ok());
  WaitForStatus("SOURCE_STATE_STREAMING");
  v1::SubscribeRequest request;
  request.set_feed("audit");
  request.mutable_start()->mutable_earliest();
  RecordedStream recording("changelog of many pages");
  LiveSubscriber subscriber(tidemark_->address(), request, &recording);
  Exec("insert into item select i, i from generate_series(1, 10000) i");
  Exec("update item set n = n + 1 where id = 10000");
  ASSERT_TRUE(
      subscriber.FollowUntil([&] { return recording.finished_transactions() >= 2; }, seconds(60)))
      << tidemark_->Diagnostics();
  const auto seen = SeenTransactions(recording);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->size(), 2u);
  EXPECT_EQ((*seen)[0].changes.size(), 10'000u);
  EXPECT_FALSE((*seen)[0].cursor.empty());
  EXPECT_EQ((*seen)[1].changes.size(), 1u);
  EXPECT_EQ(Folded(recording), Held());
}

// proves S16: up to now, on an idle changelog and without a write to it.
TEST_F(ChangelogTest, AReadUpToNowEndsWhereTheChangelogEnds) {
  for (int i = 0; i < 5; ++i) Commit();
  ASSERT_TRUE(tidemark_->Launch().ok());
  WaitForStatus("SOURCE_STATE_STREAMING");
  for (int round = 0; round < 3; ++round) {
    const auto tail = tidemark_->Run({"tail", "audit", "--from", "earliest", "--until", "now"});
    ASSERT_TRUE(tail.ok()) << tail.status();
    EXPECT_EQ(tail->exit_code, 0) << tail->err;
    for (int i = 1; i <= commits_; ++i) {
      EXPECT_THAT(tail->out, HasSubstr(fmt::format("{}003", i)));
    }
    Commit();
  }
}

TEST_F(ChangelogTest, TheCheckSaysWhatIsMissing) {
  auto checked = tidemark_->Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->exit_code, 0) << checked->out << checked->err;
  Exec("alter sequence tidemark.changelog_seq cache 10");
  checked = tidemark_->Check();
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->exit_code, 5);
  EXPECT_THAT(checked->out, HasSubstr("CACHE 1"));
}

}  // namespace
}  // namespace tidemark::testing
