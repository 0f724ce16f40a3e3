// Breaks of the source's log, and how a feed gets over them: what subscribers hold in the end is
// what the source holds, and they were told where changes may be missing.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "proto/position.h"
#include "tests/end_to_end/statement_writer.h"
#include "tests/end_to_end/table_fixture.h"
#include "tests/testing/file_text.h"
#include "tests/testing/seed.h"

namespace tidemark::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;

LiveTidemarkOptions WithRecovery(const std::string& policy) {
  LiveTidemarkOptions options;
  if (!policy.empty()) options.feed_lines = {"recovery: " + policy};
  return options;
}

// What the feed made itself out of what it read again.
struct Resync {
  uint64_t changes = 0;
  // Those that said what the subscriber knew already.
  uint64_t needless = 0;
};

class HealingTest : public TableFixture {
 protected:
  static constexpr int kRows = 10'000;
  // Rows from here on belong to the writers.
  static constexpr int kWritersFrom = 5'000;

  void SetUpTable(LivePostgresOptions options = {}) {
    SetUpPostgres(std::move(options));
    Exec({"create table big (id int primary key, v int, note text)",
          fmt::format("insert into big select i, 0, repeat('n', 50) from generate_series(0, {}) i",
                      kRows - 1)});
  }

  // 137 rows that differ, 41 that are gone, 59 that are new: none of them a writer's.
  void ChangeWhatIsMissed() {
    Exec({"update big set v = v + 1 where id < 137", "delete from big where id between 500 and 540",
          fmt::format("insert into big select i, 1, 'new' from generate_series({}, {}) i",
                      1'000'000 + missed_, 1'000'000 + missed_ + 58),
          // Changed, and changed back: no difference.
          "update big set v = 7 where id between 2000 and 2100",
          "update big set v = 0 where id between 2000 and 2100"});
    missed_ += 59;
  }
  static constexpr uint64_t kMissed = 137 + 41 + 59;

  void StopServer() {
    tidemark_->Kill9();
    ASSERT_TRUE(WaitUntil(
        [&] {
          const auto active =
              postgres_->QueryValue("select count(*) from pg_replication_slots where active");
          return active.ok() && *active == "0";
        },
        kDeadline));
  }
  void DropSlot() { Exec({"select pg_drop_replication_slot('tidemark_main')"}); }

  void Launch(const std::vector<std::string>& arguments = {}) {
    const absl::Status launched = tidemark_->Launch(arguments);
    ASSERT_TRUE(launched.ok()) << launched;
  }
  ::testing::AssertionResult WaitForFailure(const std::string& reason) {
    return WaitUntil(
        [&] {
          const v1::FeedStatus status = StatusOfFeed();
          return status.source_state() == v1::SOURCE_STATE_FAILED &&
                 status.last_error().reason() == reason;
        },
        kDeadline,
        [&] { return StatusOfFeed().ShortDebugString() + "\n" + tidemark_->Diagnostics(); });
  }
  // In this generation, with every table read.
  ::testing::AssertionResult WaitUntilHealed(uint32_t generation, const std::string& reason) {
    return WaitUntil(
        [&] {
          const v1::FeedStatus status = StatusOfFeed();
          if (status.generation() != generation || status.last_gap().reason() != reason ||
              status.source_state() != v1::SOURCE_STATE_STREAMING || status.tables().empty()) {
            return false;
          }
          return std::all_of(status.tables().begin(), status.tables().end(),
                             [](const auto& table) { return table.state() == kFollowed; });
        },
        kDeadline,
        [&] { return StatusOfFeed().ShortDebugString() + "\n" + tidemark_->Diagnostics(); });
  }
  void Recover(const std::string& policy) {
    const auto done = tidemark_->Run({"recover", "main", "--policy", policy});
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->exit_code, 0) << done->out << done->err;
  }

  void ExpectEqualTables() {
    CatchUp();
    EXPECT_TRUE(Here("public.big") == There("public.big"))
        << Here("public.big").size() << " rows here, " << There("public.big").size() << " there\n"
        << tidemark_->Diagnostics();
    // And so do the rows that a new subscriber would begin with.
    const auto verified = tidemark_->Run({"verify", "main", "public.big"});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->exit_code, 0) << verified->out << verified->err;
  }

  size_t Gaps() const {
    size_t gaps = 0;
    for (const RecordedSegment& segment : stream_.segments()) {
      for (const RecordedEvent& event : segment.events) gaps += event.record.has_gap() ? 1 : 0;
    }
    return gaps;
  }

  // Of public.big, in this generation, of rows with an id below `below` or from `from` on.
  Resync CountResync(uint32_t generation, int below = 1 << 30, int from = 1 << 30) {
    std::set<std::string> made;
    for (const RecordedSegment& segment : stream_.segments()) {
      for (const RecordedEvent& event : segment.events) {
        for (const v1::Transaction& part : event.record.batch().transactions()) {
          const auto position = Position::FromText(part.position());
          if (part.origin() == v1::ORIGIN_RESYNC && position->generation() == generation) {
            made.insert(part.position());
          }
        }
      }
    }
    Resync resync;
    std::map<std::string, Columns> rows;
    for (const RecordedSegment& segment : stream_.segments()) {
      const auto bootstrap = RowsOf(segment);
      EXPECT_TRUE(bootstrap.ok()) << bootstrap.status();
      for (const RecordedChange& row : *bootstrap) {
        if (row.table == "public.big") rows[*row.key.at("id")] = row.columns;
      }
    }
    const auto seen = SeenTransactions(stream_);
    EXPECT_TRUE(seen.ok()) << seen.status();
    for (const RecordedTransaction& transaction : *seen) {
      for (const RecordedChange& change : transaction.changes) {
        if (change.table != "public.big") continue;
        const std::string id = *change.key.at("id");
        const auto known = rows.find(id);
        const bool is_made = made.count(transaction.position) > 0;
        const bool counts = std::stoi(id) < below || std::stoi(id) >= from;
        if (is_made && counts) ++resync.changes;
        if (change.op == "delete") {
          if (is_made && known == rows.end()) ++resync.needless;
          rows.erase(id);
        } else {
          if (is_made && known != rows.end() && known->second == change.columns) ++resync.needless;
          if (is_made && (change.op == "insert") != (known == rows.end())) ++resync.needless;
          rows[id] = change.columns;
        }
      }
    }
    return resync;
  }

 private:
  int missed_ = 0;
};

// Changes its own rows of public.big at random, until it is stopped.
class BigWriter : public StatementWriter {
 public:
  BigWriter(const LivePostgres& postgres, int from, int to, uint64_t seed)
      : StatementWriter(postgres, [from, to, random = std::mt19937_64(seed)](int) mutable {
          const int id = from + static_cast<int>(random() % (to - from));
          switch (random() % 4) {
            case 0:
              return fmt::format("delete from big where id = {}", id);
            case 1:
              return fmt::format(
                  "insert into big values ({}, 1, 'w') on conflict (id) do update set v = 2", id);
            default:
              return fmt::format("update big set v = v + 1 where id between {} and {}", id,
                                 std::min(id + 3, to - 1));
          }
        }) {}
};

// proves B055, R33, R37: a slot that the server gave up, under writers, is healed by itself with
// exactly what differs.
TEST_F(HealingTest, ALostSlotUnderWritersIsHealedWithTheTrueDifferencesAlone) {
  LivePostgresOptions options;
  options.settings = {
      {"max_slot_wal_keep_size", "2MB"}, {"min_wal_size", "32MB"}, {"max_wal_size", "32MB"}};
  SetUpTable(std::move(options));
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  std::vector<std::unique_ptr<BigWriter>> writers;
  for (uint64_t seed : {1, 2, 3}) {
    writers.push_back(std::make_unique<BigWriter>(*postgres_, kWritersFrom, kRows, seed));
  }
  StopServer();
  ChangeWhatIsMissed();
  ASSERT_TRUE(WaitUntil(
      [&] {
        Exec({"create table junk as select repeat('x', 1000) from generate_series(1, 20000)",
              "drop table junk", "select pg_switch_wal()", "checkpoint"});
        return postgres_->QueryValue("select wal_status from pg_replication_slots").value() ==
               "lost";
      },
      kDeadline));
  // What comes now is not to be lost as well.
  Exec({"alter system set max_slot_wal_keep_size = -1", "select pg_reload_conf()"});
  Launch();
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_LOST"));
  for (auto& writer : writers) writer->Stop();
  ExpectEqualTables();
  EXPECT_EQ(Gaps(), 1u);
  const Resync missed = CountResync(2, kWritersFrom, 1'000'000);
  EXPECT_EQ(missed.changes, kMissed) << "of the rows that no writer touched";
  EXPECT_EQ(missed.needless, 0u) << "of all rows";
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
          .value(),
      "1");
  const v1::FeedStatus status = StatusOfFeed();
  EXPECT_EQ(status.gaps(), 1u);
  EXPECT_THAT(status.last_gap().detail(), HasSubstr("max_slot_wal_keep_size"));
  EXPECT_TRUE(status.table_problems().empty());
  // And the slot is one that lasts.
  tidemark_->Kill9();
  StartServer();
  Exec({"delete from big where id = 1"});
  ExpectEqualTables();
  EXPECT_EQ(Gaps(), 1u);
}

// proves R57: how much may still be written before the slot is given up, and how long that lasts.
TEST_F(HealingTest, TheStatusSaysHowLongTheSlotLasts) {
  LivePostgresOptions options;
  options.settings = {{"max_slot_wal_keep_size", "512MB"}};
  SetUpPostgres(std::move(options));
  StartServer();
  ASSERT_TRUE(WaitUntil(
      [&] {
        Exec({"create table junk as select repeat('x', 1000) from generate_series(1, 1000)",
              "drop table junk"});
        return StatusOfFeed().slot().has_headroom_time();
      },
      kDeadline, [&] { return StatusOfFeed().ShortDebugString(); }));
  const v1::SlotStatus slot = StatusOfFeed().slot();
  EXPECT_GT(slot.headroom_bytes(), 100u << 20);
  EXPECT_GT(slot.headroom_time().seconds(), 0);
  const auto status = tidemark_->Run({"status", "main"});
  EXPECT_THAT(status->out, HasSubstr("until the database gives it up (about "));
}

// proves R33, R37, S60, B055: never made again in silence.
TEST_F(HealingTest, ByDefaultTheFeedStaysFailedUntilItIsOrdered) {
  SetUpTable();
  StartServer();
  CatchUp();
  StopServer();
  ChangeWhatIsMissed();
  DropSlot();
  for (int life = 0; life < 2; ++life) {
    Launch();
    ASSERT_TRUE(WaitForFailure("SLOT_MISSING"));
    EXPECT_THAT(StatusOfFeed().last_error().message(),
                HasSubstr("tidemark recover main --policy resnapshot"));
    EXPECT_EQ(
        postgres_
            ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
            .value(),
        "0");
    const auto status = tidemark_->Run({"status", "main"});
    EXPECT_THAT(status->out, HasSubstr("tidemark recover main"));
    if (life == 0) StopServer();
  }
  Recover("resnapshot");
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_MISSING"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, kMissed);
  EXPECT_EQ(CountResync(2).needless, 0u);
  EXPECT_EQ(Gaps(), 1u);
  // Nothing is left to recover from.
  const auto again = tidemark_->Run({"recover", "main", "--policy", "resnapshot"});
  EXPECT_NE(again->exit_code, 0);
  EXPECT_THAT(again->err, HasSubstr("RECOVERY_REFUSED"));
  const auto wrong = tidemark_->Run({"recover", "main", "--policy", "stop"});
  EXPECT_EQ(wrong->exit_code, 2);
}

TEST_F(HealingTest, GapAndContinueGivesUpWhatIsMissing) {  // proves B055
  SetUpTable();
  StartServer(WithRecovery("gap_and_continue"));
  CatchUp();
  StopServer();
  ChangeWhatIsMissed();
  DropSlot();
  Launch();
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_MISSING"));
  Exec({"update big set v = 100 where id = 9000"});
  CatchUp();
  EXPECT_EQ(Gaps(), 1u);
  EXPECT_EQ(CountResync(2).changes, 0u);
  EXPECT_NE(Here("public.big").size(), There("public.big").size());
  // It is said of every table, and no bootstrap gets rows that may be wrong.
  const v1::FeedStatus status = StatusOfFeed();
  ASSERT_EQ(status.table_problems_size(), 2);
  EXPECT_EQ(status.table_problems(0).reason(), "CHANGES_MISSING");
  const auto tail = tidemark_->Run(
      {"tail", "main", "--from", "snapshot", "--tables", "public.big", "--until-idle"});
  EXPECT_NE(tail->exit_code, 0);
  EXPECT_THAT(tail->err, HasSubstr("SNAPSHOT_UNAVAILABLE"));
  const auto from_earliest = tidemark_->Run({"tail", "main", "--from", "earliest", "--until-idle"});
  EXPECT_THAT(from_earliest->out, HasSubstr("-- gap: SLOT_MISSING"));
  EXPECT_THAT(from_earliest->err, HasSubstr("tidemark: gap: SLOT_MISSING"));
  // Read again, it is whole.
  ASSERT_TRUE(StartSnapshot("public.big").ok());
  ASSERT_TRUE(WaitForState("public.big", kFollowed, "asked for"));
  ExpectEqualTables();
  EXPECT_EQ(StatusOfFeed().table_problems_size(), 1) << "the marker's";
}

// proves B067, S48: a standby that had not received the last commits becomes the primary.
TEST_F(HealingTest, APromotedStandbyWhoseHistoryIsAnother) {
  SetUpTable();
  StartServer();
  CatchUp();
  auto standby = LivePostgres::CreateStandby(*postgres_);
  ASSERT_TRUE(standby.ok()) << standby.status();
  // It receives no more: what comes now is captured, and undone by the failover.
  ASSERT_TRUE((*standby)->Exec("alter system set primary_conninfo = ''").ok());
  ASSERT_TRUE((*standby)->Exec("select pg_reload_conf()").ok());
  ASSERT_TRUE(WaitUntil(
      [&] {
        return postgres_
                   ->QueryValue(
                       "select count(*) from pg_stat_replication where "
                       "application_name = 'walreceiver'")
                   .value() == "0";
      },
      kDeadline));
  Exec({"update big set v = 50 where id < 30", "insert into big values (2000000, 1, 'undone')"});
  CatchUp();
  StopServer();
  ASSERT_TRUE((*standby)->Promote().ok());
  PointAt(**standby);
  std::swap(postgres_, *standby);
  Exec({"update big set v = 60 where id between 20 and 39", "delete from big where id = 100"});
  Launch();
  ASSERT_TRUE(WaitForFailure("SOURCE_TIMELINE_CHANGED"));
  EXPECT_THAT(StatusOfFeed().last_error().message(), HasSubstr("old primary"));
  Recover("resnapshot");
  ASSERT_TRUE(WaitUntilHealed(2, "SOURCE_TIMELINE_CHANGED"));
  ExpectEqualTables();
  // 20 of the 30 are as before, 20 are new; one row was undone, one is gone.
  EXPECT_EQ(CountResync(2).changes, 20u + 20u + 1u + 1u);
  EXPECT_EQ(CountResync(2).needless, 0u);
  tidemark_->Kill9();
  StartServer();
  Exec({"delete from big where id = 2"});
  ExpectEqualTables();
}

TEST_F(HealingTest, AFailoverIsHealedByItself) {  // proves B067
  SetUpTable();
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  auto standby = LivePostgres::CreateStandby(*postgres_);
  ASSERT_TRUE(standby.ok()) << standby.status();
  StopServer();
  const std::string end = postgres_->QueryValue("select pg_current_wal_flush_lsn()").value();
  ASSERT_TRUE(WaitUntil(
      [&] {
        return (*standby)->QueryValue("select pg_last_wal_replay_lsn() >= '" + end + "'").value() ==
               "t";
      },
      kDeadline));
  ASSERT_TRUE(postgres_->Stop(StopMode::kImmediate).ok());
  ASSERT_TRUE((*standby)->Promote().ok());
  PointAt(**standby);
  std::swap(postgres_, *standby);
  ChangeWhatIsMissed();
  Launch();
  // Nothing was undone, but nobody kept a copy of the slot.
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_MISSING"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, kMissed);
}

// proves S47, S48, B067: a database that was set back is noted: when its log has grown past what is
// stored, nothing shows any more.
TEST_F(HealingTest, ARestoredDatabaseIsNotTakenForTheOldOne) {
  SetUpTable();
  StartServer();
  CatchUp();
  StopServer();
  ASSERT_TRUE(postgres_->Stop().ok());
  const std::filesystem::path data = postgres_->data_dir();
  const std::filesystem::path copy = data.parent_path() / "copy";
  ASSERT_EQ(std::system(fmt::format("cp -a {} {}", data.string(), copy.string()).c_str()), 0);
  ASSERT_TRUE(postgres_->Start().ok());
  StartServer();
  Exec({"update big set v = 50 where id < 3000"});
  CatchUp();
  StopServer();
  ASSERT_TRUE(postgres_->Stop().ok());
  ASSERT_EQ(
      std::system(fmt::format("rm -rf {0} && mv {1} {0}", data.string(), copy.string()).c_str()),
      0);
  ASSERT_TRUE(postgres_->Start().ok());
  Launch();
  ASSERT_TRUE(WaitForFailure("SOURCE_REWOUND"));
  StopServer();
  Exec({"create table junk as select repeat('x', 1000) from generate_series(1, 3000)",
        "drop table junk"});
  Launch();
  ASSERT_TRUE(WaitForFailure("SOURCE_REWOUND"));
  Recover("resnapshot");
  ASSERT_TRUE(WaitUntilHealed(2, "SOURCE_REWOUND"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, 3000u);
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
          .value(),
      "1");
}

// proves S47, B057: a slot that somebody moved is gone on with, not dropped.
TEST_F(HealingTest, ASlotThatWasMovedIsGoneOnWith) {
  SetUpTable();
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  StopServer();
  ChangeWhatIsMissed();
  Exec({"select pg_replication_slot_advance('tidemark_main', pg_current_wal_flush_lsn())",
        "update big set v = 77 where id = 9000"});
  const auto slots_made = [&] {
    const std::string log = postgres_->Log();
    size_t made = 0;
    for (size_t at = 0; (at = log.find("CREATE_REPLICATION_SLOT", at)) != std::string::npos; ++at) {
      ++made;
    }
    return made;
  };
  const size_t before = slots_made();
  Launch();
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_ADVANCED"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, kMissed) << "what the slot still held came by the stream";
  EXPECT_EQ(slots_made(), before);
}

TEST_F(HealingTest, AMissingPublicationIsMadeAgainWithItsSlot) {  // proves S62
  SetUpTable();
  StartServer();
  CatchUp();
  StopServer();
  ChangeWhatIsMissed();
  Exec({"drop publication tidemark_main"});
  Launch();
  ASSERT_TRUE(WaitForFailure("PUBLICATION_MISSING"));
  Recover("resnapshot");
  ASSERT_TRUE(WaitUntilHealed(2, "PUBLICATION_MISSING"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, kMissed);
}

// proves S27, S48: another cluster at the address, an upgraded one say, by order alone; and a slot
// that is there is not the feed's.
TEST_F(HealingTest, AnotherClusterTakesThePlaceByOrderAlone) {
  SetUpTable();
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  StopServer();
  auto other = LivePostgres::Create();
  ASSERT_TRUE(other.ok()) << other.status();
  PointAt(**other);
  std::swap(postgres_, *other);
  Exec({"create table marker (n int primary key)",
        "create table big (id int primary key, v int, note text)",
        "insert into big select i, 0, repeat('n', 50) from generate_series(10, 19999) i",
        "select pg_create_logical_replication_slot('tidemark_main', 'pgoutput')"});
  Launch();
  ASSERT_TRUE(WaitForFailure("SOURCE_REPLACED"));
  Recover("resnapshot");
  ASSERT_TRUE(WaitForFailure("SLOT_FOREIGN"));
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
          .value(),
      "1");
  DropSlot();
  tidemark_->Kill9();
  Launch();
  ASSERT_TRUE(WaitUntilHealed(2, "SOURCE_REPLACED")) << "the order holds over restarts";
  ExpectEqualTables();
}

// A newer cluster in the place of the one that was captured. Needs two versions on the machine: the
// lane `newest` has both.
class UpgradedServerTest : public HealingTest {
 protected:
  static constexpr int kNewestFrom = 18;

  // False where the binaries that are tested with are older. That the other ones are missing is no
  // reason to leave it out.
  static bool HasNewest() {
    const char* bin = getenv("TIDEMARK_POSTGRES_BIN");
    if (bin == nullptr) return false;
    return std::atoi(std::filesystem::path(bin).parent_path().filename().c_str()) >= kNewestFrom;
  }
  // The server in the place of postgres_, which is to have no checksums.
  void Upgrade() {
    ASSERT_TRUE(postgres_->Stop().ok());
    LivePostgresOptions options;
    options.initdb_arguments = {"--no-data-checksums"};
    auto upgraded = LivePostgres::CreateUpgraded(*postgres_, std::move(options));
    ASSERT_TRUE(upgraded.ok()) << upgraded.status();
    PointAt(**upgraded);
    old_ = std::exchange(postgres_, *std::move(upgraded));
  }
  void ExpectHealedByOrder() {
    ChangeWhatIsMissed();
    Launch();
    ASSERT_TRUE(WaitForFailure("SOURCE_REPLACED"));
    Recover("resnapshot");
    ASSERT_TRUE(WaitUntilHealed(2, "SOURCE_REPLACED"));
    ExpectEqualTables();
    EXPECT_EQ(Gaps(), 1u);
    const Resync missed = CountResync(2);
    EXPECT_EQ(missed.changes, kMissed);
    EXPECT_EQ(missed.needless, 0u);
  }

  // Its witness may be asked for what was committed there.
  std::unique_ptr<LivePostgres> old_;
};

// proves S27, S48: pg_upgrade leaves the slots of such an old server behind. Needs PostgreSQL 18.
TEST_F(UpgradedServerTest, IsHealedByOrderWithTheTrueDifferencesAlone) {
  if (!HasNewest()) GTEST_SKIP() << "needs PostgreSQL 18 and 15: tests/run --only newest";
  LivePostgresOptions options;
  options.bin_dir = "/usr/lib/postgresql/15/bin";
  SetUpTable(std::move(options));
  StartServer();
  CatchUp();
  StopServer();
  Upgrade();
  ASSERT_TRUE(old_->Start().ok());
  ASSERT_EQ(postgres_->QueryValue("select count(*) from pg_replication_slots").value(), "0");
  ExpectHealedByOrder();
}

// proves S27, S48: from 17 on it carries them over, and nothing says that they were. Needs
// PostgreSQL 18.
TEST_F(UpgradedServerTest, ItsSlotIsReplacedByOrder) {
  if (!HasNewest()) GTEST_SKIP() << "needs PostgreSQL 18 and 15: tests/run --only newest";
  LivePostgresOptions options;
  options.initdb_arguments = {"--no-data-checksums"};
  options.settings = {{"autovacuum", "off"}};  // it commits whenever it likes
  SetUpTable(std::move(options));
  StartServer();
  CatchUp();
  // Whatever a slot has not sent yet keeps a cluster from being upgraded.
  const std::string end = postgres_->QueryValue("select pg_current_wal_flush_lsn()").value();
  ASSERT_TRUE(WaitUntil(
      [&] {
        return postgres_
                   ->QueryValue("select confirmed_flush_lsn >= '" + end +
                                "' from pg_replication_slots where slot_name = 'tidemark_main'")
                   .value() == "t";
      },
      kDeadline));
  StopServer();
  Exec({"select pg_drop_replication_slot('witness')"});
  Upgrade();
  ASSERT_TRUE(old_->Start().ok());
  ASSERT_EQ(postgres_->QueryValue("select slot_name from pg_replication_slots").value(),
            "tidemark_main");
  ExpectHealedByOrder();
  EXPECT_EQ(postgres_->QueryValue("select count(*) from pg_replication_slots").value(), "1");
}

class HealingStepTest : public HealingTest, public ::testing::WithParamInterface<const char*> {};

// proves S38, R24: killed at every step, a healing is done once, or still to be done.
TEST_P(HealingStepTest, KilledThereItComesToItsEnd) {
  SetUpTable();
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  StopServer();
  ChangeWhatIsMissed();
  DropSlot();
  Launch({"--crash-at", GetParam()});
  const auto exit_code = tidemark_->process().WaitForExit(kDeadline);
  ASSERT_TRUE(exit_code.ok()) << exit_code.status();
  Launch();
  ASSERT_TRUE(WaitUntilHealed(2, "SLOT_MISSING"));
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).changes, kMissed);
  EXPECT_EQ(CountResync(2).needless, 0u);
  EXPECT_EQ(Gaps(), 1u);
  EXPECT_EQ(
      postgres_
          ->QueryValue("select count(*) from pg_replication_slots where slot_name <> 'witness'")
          .value(),
      "1");
}

// The first batch notes the slot that is about to be made, the second one is the next generation,
// and then the tables are read.
INSTANTIATE_TEST_SUITE_P(Steps, HealingStepTest,
                         ::testing::Values("read:1", "appended:1", "synced:1", "confirmed:1",
                                           "read:2", "appended:2", "synced:2", "published:2",
                                           "confirmed:2", "appended:4"),
                         [](const auto& step) {
                           std::string name = step.param;
                           std::erase(name, ':');
                           return name;
                         });

// proves R38, S38: killed at any moment, again and again, under writers.
TEST_F(HealingTest, KilledAtAnyMomentUnderWriters) {
  SetUpTable();
  StartServer(WithRecovery("resnapshot"));
  CatchUp();
  std::mt19937_64 random(11);
  BigWriter writer(*postgres_, kWritersFrom, kRows, 5);
  const uint32_t rounds = IsLong() ? 3 : 2;
  for (uint32_t round = 0; round < rounds; ++round) {
    StopServer();
    ChangeWhatIsMissed();
    DropSlot();
    for (int kill = 0; kill < 4; ++kill) {
      Launch();
      // Anywhere between its first steps and the end of the reading.
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(random() % 700);
      ASSERT_TRUE(WaitUntil([&] { return std::chrono::steady_clock::now() >= until; }, kDeadline));
      tidemark_->Kill9();
    }
    Launch();
    ASSERT_TRUE(WaitUntil([&] { return StatusOfFeed().gaps() == round + 1; }, kDeadline,
                          [&] { return StatusOfFeed().ShortDebugString(); }));
    ASSERT_TRUE(WaitUntilHealed(round + 2, "SLOT_MISSING"));
  }
  writer.Stop();
  ExpectEqualTables();
  EXPECT_EQ(CountResync(2).needless, 0u);
  EXPECT_EQ(Gaps(), rounds);
}

}  // namespace
}  // namespace tidemark::testing
