// The configuration file of a server that runs, read again: SIGHUP.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/file_text.h"
#include "tests/testing/named_pipe.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kRemoved = v1::TABLE_FOLLOW_STATE_REMOVED;
constexpr v1::TableFollowState kFailed = v1::TABLE_FOLLOW_STATE_FAILED;

class ConfigReloadTest : public TableFixture {
 protected:
  void SetUp() override {
    SetUpPostgres();
    Exec({"create table a (id int primary key, v text)",
          "create table b (id int primary key, v text)",
          "create table c (id int primary key, v text)", "insert into a values (1, 'a')",
          "insert into b values (1, 'x'), (2, 'y')"});
  }

  // The marker is in every list, so that the subscriber can tell how far it is.
  static LiveTidemarkOptions Tables(const std::string& tables) {
    LiveTidemarkOptions options;
    options.postgres_lines = {"tables: [public.marker, " + tables + "]"};
    return options;
  }
  void WriteTables(const std::string& tables) {
    LiveTidemarkOptions options = Tables(tables);
    options.postgres_lines.push_back("catalog_period: 1s");  // as the fixture has it
    tidemark_->WriteConfig(options);
  }
  void Hangup() { tidemark_->process().Signal(SIGHUP); }
  ::testing::AssertionResult WaitForLog(const std::string& text) {
    return WaitUntil([&] { return tidemark_->process().Stderr().find(text) != std::string::npos; },
                     kDeadline, [&] { return text + " is not in " + tidemark_->Diagnostics(); });
  }
  std::vector<std::string> OpsOf(const std::string& table) {
    std::vector<std::string> ops;
    for (const RecordedChange& change : ChangesOf(table)) ops.push_back(change.op);
    return ops;
  }
};

// proves B065, B083
TEST_F(ConfigReloadTest, TheTablesOfTheFileTakeEffectAtOnce) {
  StartServer(Tables("public.a"));
  CatchUp();
  WriteTables("public.a, public.b");
  Hangup();
  ASSERT_TRUE(WaitForState("public.b", kFollowed, "new to the feed"));
  EXPECT_TRUE(
      WaitForLog("configuration read again applied=feeds[0].postgres.tables "
                 "with_restart=\"\""));
  CatchUp();
  EXPECT_THAT(OpsOf("public.b"), ElementsAre("read", "read"));
  Exec({"insert into b values (3, 'z')", "insert into a values (2, 'aa')"});
  CatchUp();
  EXPECT_THAT(OpsOf("public.b"), ElementsAre("read", "read", "insert"));
  EXPECT_EQ(Here("public.b"), There("public.b"));
  EXPECT_EQ(Here("public.a"), There("public.a"));

  WriteTables("public.b");
  Hangup();
  ASSERT_TRUE(WaitForState("public.a", kRemoved));
  EXPECT_TRUE(WaitForLog("table state feed=main table=public.a state=removed"));
  const std::vector<std::string> left = Here("public.a");
  Exec({"insert into a values (3, 'missed')", "delete from b where id = 1"});
  CatchUp();
  EXPECT_EQ(Here("public.a"), left);
  EXPECT_EQ(Here("public.b"), There("public.b"));

  // A file with errors: where, and what; the server goes on as it was.
  const std::string file = tidemark_->config_file().string();
  const std::string good = FileText(file);
  std::ofstream(file) << good << "    rows_off: [nonsense]\nlissten: 1\n";
  Hangup();
  EXPECT_TRUE(
      WaitForLog("error configuration refused reason=CONFIG_INVALID message=\"" + file + ":13:"));
  EXPECT_THAT(tidemark_->process().Stderr(),
              HasSubstr(file + ":14:1: lissten: unknown key; did you mean \\\"listen\\\"?"));
  Exec({"insert into b values (4, 'on')"});
  CatchUp();
  EXPECT_EQ(Here("public.b"), There("public.b"));
  EXPECT_EQ(Here("public.a"), left);

  // What else it says is named.
  std::ofstream(file) << good << "    rows: false\nmetrics_listen: 127.0.0.1:0\n";
  Hangup();
  EXPECT_TRUE(
      WaitForLog("warning configuration read again applied=\"\" "
                 "with_restart=\"feeds[0].rows, metrics_listen\""));
  std::ofstream(file) << good;

  tidemark_->Kill9();
  StartServer();
  ASSERT_TRUE(WaitForState("public.b", kFollowed));
  EXPECT_EQ(StatusOf("public.a").state(), kRemoved);
  Exec({"insert into a values (4, 'missed')", "insert into b values (5, 'on')"});
  CatchUp();
  EXPECT_EQ(Here("public.a"), left);
  EXPECT_EQ(Here("public.b"), There("public.b"));
}

// How a file takes effect.
enum class By { kSignal, kRestart, kKill };

class ConfigTablesTest : public ConfigReloadTest, public ::testing::WithParamInterface<By> {
 protected:
  // The file names these tables, and the server was told.
  void Use(const std::string& tables) {
    WriteTables(tables);
    if (GetParam() == By::kSignal) return Hangup();
    if (GetParam() == By::kKill) tidemark_->Kill9();
    if (GetParam() == By::kRestart) {
      ASSERT_EQ(tidemark_->Stop().value_or(-1), 0);
    }
    StartServer();
  }
};

// proves B065: the feed that follows from a list is the same, whichever way the list came.
TEST_P(ConfigTablesTest, AListMeansTheSameHoweverItCame) {
  StartServer(Tables("public.a"));
  CatchUp();
  // Every table but one is another.
  Use("public.b");
  ASSERT_TRUE(WaitForState("public.b", kFollowed, "new to the feed"));
  ASSERT_TRUE(WaitForState("public.a", kRemoved));
  Exec({"insert into a values (2, 'missed')", "update a set v = 'missed' where id = 1",
        "insert into b values (3, 'z')"});
  CatchUp();
  EXPECT_THAT(Here("public.a"), ElementsAre("id='1' v='a'"));
  EXPECT_EQ(Here("public.b"), There("public.b"));

  // Named again, it is read: only what it missed is told.
  Use("'public.?'");
  ASSERT_TRUE(WaitForState("public.a", kFollowed, "new to the feed"));
  ASSERT_TRUE(WaitForState("public.c", kFollowed, "new to the feed"));
  CatchUp();
  EXPECT_EQ(Here("public.a"), There("public.a"));
  EXPECT_THAT(OpsOf("public.a"), ::testing::UnorderedElementsAre("update", "insert"));

  // Orders stand over lists.
  ASSERT_TRUE(AddTable("public.c").ok());
  ASSERT_TRUE(RemoveTable("public.b", /*truncate=*/false).ok());
  ASSERT_TRUE(WaitForState("public.b", kRemoved));
  Use("public.a, public.b");
  Exec({"insert into a values (5, 'on')", "insert into b values (6, 'removed')",
        "insert into c values (7, 'added')"});
  ASSERT_TRUE(WaitUntilSettled("public.c"));
  CatchUp();
  EXPECT_EQ(Here("public.a"), There("public.a"));
  EXPECT_EQ(Here("public.c"), There("public.c"));
  EXPECT_EQ(StatusOf("public.b").state(), kRemoved);
  EXPECT_THAT(Here("public.b"), Not(::testing::Contains("id='6' v='removed'")));
  if (GetParam() == By::kSignal) {
    EXPECT_TRUE(WaitForLog("orders_stand=\"public.b removed, public.c added\""));
  }

  // A name that nothing has is said, and forgotten with it.
  Use("public.a, public.nowhere");
  ASSERT_TRUE(WaitForState("public.nowhere", kFailed, "SOURCE_TABLE_MISSING"));
  Use("public.a");
  EXPECT_TRUE(WaitUntil([&] { return StatusOf("public.nowhere").table().empty(); }, kDeadline));
  EXPECT_EQ(StatusOf("public.a").state(), kFollowed);
}

INSTANTIATE_TEST_SUITE_P(Ways, ConfigTablesTest,
                         ::testing::Values(By::kSignal, By::kRestart, By::kKill),
                         [](const auto& way) -> std::string {
                           return way.param == By::kSignal    ? "Signal"
                                  : way.param == By::kRestart ? "Restart"
                                                              : "Kill";
                         });

// The list waits for a source that is away.
TEST_F(ConfigReloadTest, AListThatComesWhileTheSourceIsDownHoldsWhenItIsBack) {
  StartServer(Tables("public.a"));
  CatchUp();
  ASSERT_TRUE(postgres_->Stop(StopMode::kFast).ok());
  ASSERT_TRUE(WaitForLog("source lost"));
  WriteTables("public.b");
  Hangup();
  ASSERT_TRUE(WaitForLog("configuration read again applied=feeds[0].postgres.tables"));
  ASSERT_TRUE(postgres_->Start().ok());
  ASSERT_TRUE(WaitForState("public.b", kFollowed, "new to the feed"));
  Exec({"insert into a values (2, 'removed')"});
  CatchUp();
  EXPECT_EQ(Here("public.b"), There("public.b"));
  EXPECT_THAT(Here("public.a"), ElementsAre("id='1' v='a'"));
}

// A look at the catalog that began with the list before says nothing of the tables of this one.
TEST_F(ConfigReloadTest, AListThatComesDuringALookIsLookedAtAnew) {
  StartServer(Tables("public.a"));
  CatchUp();
  auto holder = postgres_->Connect();
  ASSERT_TRUE(holder.ok());
  ASSERT_TRUE((*holder)->Exec("begin; lock table pg_inherits in access exclusive mode").ok());
  ASSERT_TRUE(WaitUntil(
      [&] {
        return postgres_
                   ->QueryValue(
                       "select count(*) from pg_locks where not granted and relation = "
                       "'pg_inherits'::regclass")
                   .value_or("0") != "0";
      },
      kDeadline));
  WriteTables("public.a, public.b");
  Hangup();
  ASSERT_TRUE(WaitForLog("tables of the feed"));
  // The list was taken before the second of them was read.
  CatchUp();
  CatchUp();
  ASSERT_TRUE((*holder)->Exec("commit").ok());
  ASSERT_TRUE(WaitForState("public.b", kFollowed, "new to the feed"));
  EXPECT_THAT(tidemark_->process().Stderr(), Not(HasSubstr("SOURCE_TABLE_MISSING")));
}

// Whoever sends it at the start wants what the file says by then; whoever sends it at the end
// changes nothing; and a file that does not answer holds up nobody.
TEST_F(ConfigReloadTest, TheSignalEndsNothingAndHoldsNothingUp) {
  tidemark_ = std::make_unique<LiveTidemark>(*postgres_, Tables("public.a"));
  const std::string file = tidemark_->config_file().string();
  const std::string text = FileText(file);
  std::filesystem::remove(file);
  NamedPipe pipe(file);
  ASSERT_TRUE(tidemark_->Launch().ok());
  ASSERT_TRUE(pipe.WaitForReader());
  Hangup();
  Hangup();
  pipe.Write(text);
  const absl::Status started = tidemark_->WaitUntilStreaming();
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_TRUE(pipe.WaitForReader()) << "the signal of the start";
  Hangup();
  Exec({"insert into a values (2, 'on')"});
  ASSERT_TRUE(tidemark_->WaitForStatus("SOURCE_STATE_STREAMING").ok());
  tidemark_->process().Signal(SIGTERM);
  Hangup();
  ASSERT_TRUE(WaitForLog("draining"));
  Hangup();
  const auto exit_code = tidemark_->process().WaitForExit(seconds(30));
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  EXPECT_EQ(*exit_code, 0) << tidemark_->Diagnostics();
  EXPECT_THAT(tidemark_->process().Stderr(), Not(HasSubstr("configuration")));
  EXPECT_TRUE(tidemark_->VerifyStore().ok());
}

}  // namespace
}  // namespace tidemark::testing
