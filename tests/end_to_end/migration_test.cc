// A feed that is polled and then moved to the log under its name: under writers, with deletes and
// late rows that no poll could see, killed at every step, rolled back, and refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "proto/position.h"
#include "tests/end_to_end/statement_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/witness.h"

namespace tidemark::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As a shell says it: SIGKILL.
constexpr int kKilled = 137;

// Versions of its own rows of public.item, each with a stamp and a number that only rises, until it
// is stopped. Some transactions stay open for a moment, so that stamps and commits differ in order.
class ItemWriter : public StatementWriter {
 public:
  ItemWriter(const LivePostgres& postgres, int from, int to, uint64_t seed)
      : StatementWriter(postgres, [from, to, random = std::mt19937_64(seed)](int) mutable {
          return Statement(from + static_cast<int>(random() % (to - from)), &random);
        }) {}

 private:
  static std::string Statement(int id, std::mt19937_64* random) {
    const std::string change =
        (*random)() % 5 == 0
            ? fmt::format("delete from item where id = {}", id)
            : fmt::format(
                  "insert into item values ({}, nextval('version'), repeat('x', 3000), "
                  "clock_timestamp()) on conflict (id) do update set v = "
                  "nextval('version'), at = clock_timestamp()",
                  id);
    // As fast as it goes, three of them are more than a busy machine captures.
    const std::string pause = "select pg_sleep(0.003)";
    if ((*random)() % 4 != 0) return change + "; " + pause;
    return fmt::format(
        "begin; {}; {}; update item set v = nextval('version'), at = now() where id = {}; commit",
        change, pause, id);
  }
};

class MigrationTest : public TableFixture {
 protected:
  // Rows below belong to nobody, those from here on to the writers.
  static constexpr int kWritersFrom = 1000;
  static constexpr int kRows = 4000;

  void SetUpTables() {
    SetUpPostgres();
    Exec({"create sequence version",
          "create table item (id int primary key, v bigint not null, note text, at timestamptz not "
          "null default clock_timestamp())",
          "alter table item alter note set storage external", "create index on item (at, id)",
          fmt::format("insert into item select i, nextval('version'), repeat('n', 3000) from "
                      "generate_series(0, {}) i",
                      kRows - 1),
          "create table extra (id int primary key, n int)", "insert into extra values (1, 1)"});
    // Which changes are told while it is polled, no witness of the log can say.
    stream_.MovesToTheLog();
  }

  LiveTidemarkOptions Options(const std::string& interval = "100ms", bool polled = true) const {
    LiveTidemarkOptions options;
    options.postgres_lines = {"tables: [public.item, public.marker, public.extra]"};
    if (!polled) return options;
    options.feed_lines = {
        "poll:",
        fmt::format("  postgres: {{host: 127.0.0.1, port: {}, database: postgres, user: postgres, "
                    "sslmode: disable}}",
                    postgres_->port()),
        "  interval: " + interval,
        "  overlap: 5s",
        "  delay: 0s",
        "  tables:",
        "    - {table: public.item, cursor: at}",
        "    - {table: public.marker, cursor: n}",
    };
    return options;
  }
  void StartPolling(const std::string& interval = "100ms") {
    StartServer(Options(interval));
    CallWitness(tidemark_->address(), "main", nullptr);
  }

  CommandResult Migrate(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"feed", "migrate", "main"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    auto done = tidemark_->Run(arguments, seconds(300));
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? *done : CommandResult{};
  }
  ::testing::AssertionResult WaitForPhase(const std::string& phase) {
    return WaitUntil([&] { return StatusOfFeed().migration().phase() == phase; }, kDeadline,
                     [&] { return StatusOfFeed().ShortDebugString() + tidemark_->Diagnostics(); });
  }
  static bool IsMoved(const v1::FeedStatus& status) {
    return status.engine() == "postgres" && !status.has_migration() &&
           status.source_state() == v1::SOURCE_STATE_STREAMING;
  }
  std::string Count(const std::string& of) {
    return postgres_->QueryValue("select count(*) from " + of).value_or("?");
  }
  std::string Slots() { return Count("pg_replication_slots where slot_name like 'tidemark%'"); }
  std::string Publications() { return Count("pg_publication where pubname like 'tidemark%'"); }

  // What no poll can see: a row that was stamped long ago, and one that goes.
  void WriteWhatNoPollSees() {
    CatchUp();
    Exec({"insert into item values (100000, nextval('version'), 'late', now() - interval '1 day')",
          "delete from item where id = 901", "delete from item where id = 902"});
    CatchUp();
    const auto told = ChangesOf("public.item");
    for (const RecordedChange& change : told) {
      EXPECT_FALSE(change.key.at("id") == "901" || change.key.at("id") == "902")
          << "a poll saw " << Describe(change);
    }
  }

  // Strictly rising versions of each row: nothing was told twice, and nothing went back. And no
  // delete of what was not there.
  void ExpectOnlyTrueChanges() {
    std::map<std::string, std::pair<int64_t, bool>> rows;
    for (const RecordedSegment& segment : stream_.segments()) {
      const auto bootstrap = RowsOf(segment);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status();
      for (const RecordedChange& row : *bootstrap) {
        if (row.table == "public.item") {
          rows[*row.key.at("id")] = {std::stoll(*row.columns.at("v")), true};
        }
      }
    }
    for (const RecordedChange& change : ChangesOf("public.item")) {
      auto& [version, there] = rows[*change.key.at("id")];
      if (change.op == "delete") {
        EXPECT_TRUE(there) << Describe(change) << " is not there";
        there = false;
        continue;
      }
      const int64_t told = std::stoll(*change.columns.at("v"));
      EXPECT_GT(told, version) << Describe(change);
      // Only an insert writes another note than the one that stands there.
      EXPECT_THAT(change.absent, IsEmpty()) << Describe(change);
      version = told;
      there = true;
    }
  }
  void ExpectEqual() {
    // Nobody polled it: it comes behind the move, as a table that is new to the feed.
    ASSERT_TRUE(WaitForState("public.extra", v1::TABLE_FOLLOW_STATE_FOLLOWED));
    CatchUp();
    for (const std::string table : {"public.item", "public.extra", "public.marker"}) {
      EXPECT_TRUE(Here(table) == There(table))
          << table << ": " << Here(table).size() << " rows here, " << There(table).size()
          << " there\n"
          << tidemark_->Diagnostics();
    }
    const auto verified = tidemark_->Run({"verify", "main"});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  }
  void ExpectMovedWithoutAGap() {
    const v1::FeedStatus status = StatusOfFeed();
    EXPECT_EQ(status.engine(), "postgres");
    EXPECT_EQ(status.generation(), 2u);
    EXPECT_EQ(status.gaps(), 0u);
    for (const RecordedSegment& segment : stream_.segments()) {
      for (const RecordedEvent& event : segment.events) {
        EXPECT_FALSE(event.record.has_gap()) << event.record.gap().ShortDebugString();
      }
    }
    EXPECT_EQ(Slots(), "1");
    EXPECT_EQ(Publications(), "1");
  }
};

// proves A30, A46, A52: Done-when 3 of the issue. A row that was stamped long ago and a delete come
// before it, three writers run throughout, one transaction lies across the making of the slot.
TEST_F(MigrationTest, UnderWritersTheSubscriberSeesTrueDifferencesAloneAndEndsEqual) {
  SetUpTables();
  StartPolling();
  WriteWhatNoPollSees();
  std::vector<std::unique_ptr<ItemWriter>> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(std::make_unique<ItemWriter>(*postgres_, kWritersFrom + 1000 * i,
                                                   kWritersFrom + 1000 * (i + 1), i + 1));
  }
  auto across = postgres_->Connect();
  ASSERT_TRUE(across.ok()) << across.status();
  ASSERT_TRUE((*across)->Exec("begin").ok());
  ASSERT_TRUE(
      (*across)->Exec("update item set v = nextval('version'), at = now() where id = 500").ok());
  auto migrating = tidemark_->Launch("migrate", {"feed", "migrate", "main"});
  ASSERT_TRUE(migrating.ok()) << migrating.status();
  ASSERT_TRUE(WaitUntil([&] { return Slots() == "1"; }, kDeadline,
                        [&] { return (*migrating)->Diagnostics() + tidemark_->Diagnostics(); }));
  ASSERT_TRUE((*across)->Exec("commit").ok());
  const auto ended = (*migrating)->WaitForExit(seconds(300));
  ASSERT_TRUE(ended.ok()) << ended.status() << StatusOfFeed().ShortDebugString()
                          << tidemark_->Diagnostics();
  EXPECT_EQ(*ended, 0) << (*migrating)->Diagnostics();
  EXPECT_THAT((*migrating)->Stdout(), HasSubstr("switched"));
  for (auto& writer : writers) writer->Stop();
  ExpectEqual();
  ExpectOnlyTrueChanges();
  ExpectMovedWithoutAGap();
  EXPECT_EQ(stream_.segments().size(), 1u) << "the subscriber stayed connected";

  // The poll block may stay, and may go.
  ASSERT_EQ(tidemark_->Stop().value_or(-1), 0);
  StartServer();
  Exec({"delete from item where id < 10"});
  ExpectEqual();
  ASSERT_EQ(tidemark_->Stop().value_or(-1), 0);
  tidemark_->WriteConfig(Options("", /*polled=*/false));
  StartServer();
  Exec({"delete from item where id < 20"});
  ExpectEqual();
  ExpectOnlyTrueChanges();
  EXPECT_EQ(Migrate().exit_code, 1);
}

// proves A30: each step is durable, and goes on after kill -9.
TEST_F(MigrationTest, KilledAtEveryStepItGoesOn) {
  SetUpTables();
  StartPolling();
  WriteWhatNoPollSees();
  ItemWriter writer(*postgres_, kWritersFrom, kRows, 9);
  ASSERT_EQ(Migrate({"--no-wait"}).exit_code, 0);
  const std::vector<std::string> steps = {"read", "appended", "synced", "published", "confirmed"};
  bool moved = false;
  int killed = 0;
  for (size_t life = 0; life < 60 && !moved; ++life) {
    tidemark_->process().Kill9();
    const std::string crash =
        fmt::format("{}:{}", steps[life % steps.size()], 1 + life / steps.size());
    ASSERT_TRUE(tidemark_->Launch({"--crash-at", crash}).ok());
    ASSERT_TRUE(WaitUntil(
        [&] {
          moved = IsMoved(StatusOfFeed());
          return moved || !tidemark_->process().IsRunning();
        },
        seconds(60), [&] { return crash + ": " + tidemark_->Diagnostics(); }));
    if (tidemark_->process().IsRunning()) continue;
    EXPECT_EQ(tidemark_->process().WaitForExit(seconds(10)).value_or(-1), kKilled)
        << crash << ": " << tidemark_->Diagnostics();
    ++killed;
  }
  EXPECT_GT(killed, 10);
  tidemark_->process().Kill9();
  StartServer();
  ASSERT_TRUE(WaitUntil([&] { return IsMoved(StatusOfFeed()); }, kDeadline,
                        [&] { return StatusOfFeed().ShortDebugString(); }));
  writer.Stop();
  ExpectEqual();
  ExpectOnlyTrueChanges();
  ExpectMovedWithoutAGap();
}

// proves A30: until the switch everything can be taken back, and what is not the feed's stays.
TEST_F(MigrationTest, IsRolledBackUntilItIsSwitched) {
  SetUpTables();
  // No poll ends behind the first one.
  StartPolling("1h");
  ASSERT_EQ(Migrate({"--no-wait"}).exit_code, 0);
  ASSERT_TRUE(WaitForPhase("prepared"));
  EXPECT_EQ(Slots(), "1");
  const CommandResult back = Migrate({"--roll-back"});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("rolled back"));
  EXPECT_EQ(Slots(), "0");
  EXPECT_EQ(Publications(), "0");
  EXPECT_EQ(StatusOfFeed().engine(), "poll");
  EXPECT_EQ(StatusOfFeed().generation(), 1u);
  EXPECT_EQ(Migrate({"--roll-back"}).exit_code, 1);

  // A publication of somebody else is used, and stays.
  Exec({"create publication tidemark_main for table item, marker, extra"});
  ASSERT_EQ(Migrate({"--no-wait"}).exit_code, 0);
  ASSERT_TRUE(WaitForPhase("prepared"));
  tidemark_->process().Kill9();
  ASSERT_TRUE(tidemark_->Launch().ok());
  ASSERT_TRUE(WaitForPhase("prepared"));
  EXPECT_EQ(Migrate({"--roll-back"}).exit_code, 0);
  EXPECT_EQ(Slots(), "0");
  EXPECT_EQ(Publications(), "1");
}

// proves A30: what cannot be moved is refused by name, before anything is touched.
TEST_F(MigrationTest, IsRefusedWithWhatToDo) {
  SetUpTables();
  Exec({"select pg_create_logical_replication_slot('tidemark_main', 'pgoutput')"});
  StartPolling("1h");
  CommandResult refused = Migrate();
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("MIGRATION_REFUSED"));
  EXPECT_THAT(refused.err, HasSubstr("slot tidemark_main exists already"));
  Exec({"select pg_drop_replication_slot('tidemark_main')", "alter table item add column code int",
        "update item set code = id", "alter table item alter code set not null",
        "create unique index item_code on item (code)",
        "alter table item replica identity using index item_code"});
  refused = Migrate();
  EXPECT_THAT(refused.err, HasSubstr("rows of public.item are told apart by (id)"));
  EXPECT_THAT(refused.err, HasSubstr("by (code) in the log"));
  EXPECT_EQ(Slots(), "0");
  EXPECT_EQ(Publications(), "0");
  EXPECT_FALSE(StatusOfFeed().has_migration());

  // The log alone says nothing of a feed that was polled.
  ASSERT_EQ(tidemark_->Stop().value_or(-1), 0);
  tidemark_->WriteConfig(Options("", /*polled=*/false));
  ASSERT_TRUE(tidemark_->Launch().ok());
  EXPECT_EQ(tidemark_->process().WaitForExit(seconds(30)).value_or(-1), 2);
  EXPECT_THAT(tidemark_->Diagnostics(), HasSubstr("tidemark feed migrate main"));
}

}  // namespace
}  // namespace tidemark::testing
