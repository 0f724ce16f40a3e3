// Where the slot of a feed comes to stand that is moved from polling to the log: on a real server,
// and a slot that holds more transactions than are looked at at a time.
#include "capture/migration/log_side.h"

#include <fmt/format.h>

#include <chrono>
#include <future>

#include "capture/poll/poll_sight.h"
#include "tests/capture/postgres_fixture.h"

namespace tidemark::capture {
namespace {

// Seven transactions of one row.
constexpr uint64_t kAtOnce = 20;

class LogSideTest : public PostgresFixture {
 protected:
  void SetUp() override {
    PostgresFixture::SetUp();
    if (HasFatalFailure()) return;
    Exec("CREATE TABLE t (id int PRIMARY KEY)");
    Exec("CREATE PUBLICATION tidemark_main FOR TABLE t");
    Exec("SELECT pg_create_logical_replication_slot('tidemark_main', 'pgoutput')");
    v1::FeedConfig config;
    config.set_name("main");
    config.mutable_postgres()->set_host("127.0.0.1");
    config.mutable_postgres()->set_port(postgres_->port());
    config.mutable_postgres()->set_database("postgres");
    config.mutable_postgres()->set_user("postgres");
    side_ = MakeLogSide(config, {*TablePattern::Parse("public.t")}, kAtOnce);
  }
  void Commit(int from, int count) {
    std::vector<std::string> statements;
    for (int id = from; id < from + count; ++id) {
      statements.push_back(fmt::format("INSERT INTO t VALUES ({})", id));
    }
    ExecEach(statements);
  }
  PollSight Look(bool complete = true) {
    return {.poll = 1, .snapshot = Value("SELECT pg_current_snapshot()"), .complete = complete};
  }
  // One call, and those before it: the log is flushed a moment after a commit without a wait for
  // it.
  SlotMove MoveOnce(const PollSight& sight, bool exactly) {
    SlotMove move;
    EXPECT_TRUE(testing::WaitUntil(
        [&] {
          const absl::StatusOr<SlotMove> moved = side_->MoveSlot(sight, exactly);
          EXPECT_TRUE(moved.ok()) << moved.status();
          if (moved.ok()) move = *moved;
          return !moved.ok() || move.kind != SlotMove::Kind::kNotYet;
        },
        std::chrono::seconds(20)));
    return move;
  }
  // Part by part; `exact`: all of them were.
  SlotMove Move(const PollSight& sight, bool exactly) {
    SlotMove move = MoveOnce(sight, exactly);
    for (int part = 0; part < 100 && move.kind == SlotMove::Kind::kMovedInPart; ++part) {
      const bool exact = move.exact;
      move = MoveOnce(sight, exactly);
      move.exact &= exact;
    }
    return move;
  }
  std::string SlotStandsAt() {
    return Value(
        "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = "
        "'tidemark_main'");
  }
  std::string CommitsLeft() {
    return Value(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('tidemark_main', NULL, NULL, "
        "'proto_version', '1', 'publication_names', 'tidemark_main') WHERE get_byte(data, 0) = "
        "ascii('C')");
  }

  std::unique_ptr<LogSide> side_;
};

// proves A30
TEST_F(LogSideTest, ASlotThatHoldsManyTransactionsIsMovedBehindWhatThePollSaw) {
  Commit(1, 50);
  const PollSight sight = Look();
  Commit(51, 3);
  const SlotMove move = Move(sight, /*exactly=*/true);
  ASSERT_EQ(move.kind, SlotMove::Kind::kMoved);
  EXPECT_TRUE(move.exact);
  EXPECT_EQ(SlotStandsAt(), std::to_string(move.at));
  EXPECT_EQ(CommitsLeft(), "3");
}

// Between two of them, polls go on.
TEST_F(LogSideTest, OneCallPassesOverOnePortion) {
  Commit(1, 20);
  const PollSight sight = Look();
  const SlotMove first = MoveOnce(sight, /*exactly=*/true);
  EXPECT_EQ(first.kind, SlotMove::Kind::kMovedInPart);
  EXPECT_EQ(SlotStandsAt(), std::to_string(first.at));
  EXPECT_EQ(CommitsLeft(), "13");
  // A later poll saw as much, and more.
  Commit(21, 1);
  const PollSight later = Look();
  EXPECT_EQ(MoveOnce(later, true).kind, SlotMove::Kind::kMovedInPart);
  EXPECT_EQ(CommitsLeft(), "7");
  EXPECT_EQ(Move(later, true).kind, SlotMove::Kind::kMoved);
  EXPECT_EQ(CommitsLeft(), "0");
}

TEST_F(LogSideTest, WhatThePollDidNotSeeStaysInTheSlotHoweverMuchItIs) {
  auto open = postgres_->Connect();
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE((*open)->Exec("BEGIN; INSERT INTO t VALUES (1000)").ok());
  Commit(1, 3);
  const PollSight sight = Look();
  ASSERT_TRUE((*open)->Exec("COMMIT").ok());
  Commit(4, 20);
  const SlotMove move = Move(sight, /*exactly=*/true);
  EXPECT_EQ(move.kind, SlotMove::Kind::kNotExact) << "there is more than it looks at";
  EXPECT_EQ(CommitsLeft(), "21");
  // A later poll saw all of that.
  const SlotMove later = Move(Look(), /*exactly=*/true);
  EXPECT_EQ(later.kind, SlotMove::Kind::kMoved);
  EXPECT_TRUE(later.exact);
  EXPECT_EQ(CommitsLeft(), "0");
}

// proves A30: a commit is in the log a moment before snapshots see it, and the slot may begin with
// that one at each of the polls that are tried.
TEST_F(LogSideTest, ASlotThatBeginsWithWhatThePollDidNotSeeIsMovedWhenItNeedNotBeExact) {
  Exec("INSERT INTO t VALUES (1000)");
  const std::string unseen = Value("SELECT xmin FROM t WHERE id = 1000");
  Commit(1, 20);
  PollSight sight = Look();
  sight.snapshot = fmt::format("{}:{}:{}", unseen,
                               Value("SELECT pg_snapshot_xmax(pg_current_snapshot())"), unseen);
  Commit(21, 3);
  EXPECT_EQ(Move(sight, /*exactly=*/true).kind, SlotMove::Kind::kNotExact);
  EXPECT_EQ(CommitsLeft(), "24");
  const SlotMove move = Move(sight, /*exactly=*/false);
  EXPECT_EQ(move.kind, SlotMove::Kind::kMoved);
  EXPECT_FALSE(move.exact);
  EXPECT_EQ(SlotStandsAt(), std::to_string(move.at));
  EXPECT_EQ(CommitsLeft(), "3");
}

// A function's result is stored once by the server, and that is enough.
TEST_F(LogSideTest, WhatChangesCarryIsNotStoredTwiceAtTheSource) {
  constexpr uint64_t kRows = 12;
  constexpr uint64_t kRowBytes = 1 << 20;
  const auto temp_bytes = [&] {
    return std::stoull(Value("SELECT temp_bytes FROM pg_stat_database WHERE datname = 'postgres'"));
  };
  Exec("ALTER TABLE t ADD payload text");
  Exec(fmt::format("INSERT INTO t SELECT n, repeat('x', {}) FROM generate_series(1, {}) n",
                   kRowBytes, kRows));
  const uint64_t before = temp_bytes();
  EXPECT_EQ(MoveOnce(Look(), /*exactly=*/true).kind, SlotMove::Kind::kMoved);
  // The server counts them when the session has ended.
  uint64_t stored = 0;
  EXPECT_TRUE(testing::WaitUntil(
      [&] {
        stored = temp_bytes() - before;
        return stored >= kRows * kRowBytes;
      },
      std::chrono::seconds(20)));
  EXPECT_LT(stored, kRows * kRowBytes * 3 / 2);
}

// A standby's snapshot does not say what it saw.
TEST_F(LogSideTest, WithoutKnowingWhatThePollSawItIsMovedBehindEverythingOrNotAtAll) {
  Commit(1, 20);
  const PollSight sight = Look(/*complete=*/false);
  EXPECT_EQ(Move(sight, /*exactly=*/true).kind, SlotMove::Kind::kNotExact);
  EXPECT_EQ(CommitsLeft(), "20");
  const SlotMove move = Move(sight, /*exactly=*/false);
  EXPECT_EQ(move.kind, SlotMove::Kind::kMoved);
  EXPECT_FALSE(move.exact);
  EXPECT_EQ(CommitsLeft(), "0");
}

// proves A30: whoever is killed while it takes away what was prepared, does it again.
TEST_F(LogSideTest, WhatWasTakenAwayInPartIsTakenAwayAgain) {
  v1::MigrationRecord record;
  record.set_slot("tidemark_main");
  record.set_publication("tidemark_main");
  record.mutable_postgres()->set_system_identifier(
      Value("SELECT system_identifier FROM pg_control_system()"));
  record.mutable_postgres()->set_database("postgres");
  const auto left = [&] {
    return Value(
        "SELECT count(*) FROM (SELECT slot_name FROM pg_replication_slots UNION ALL SELECT pubname "
        "FROM pg_publication) n(name) WHERE name = 'tidemark_main'");
  };
  ASSERT_EQ(left(), "2");
  Exec("SELECT pg_drop_replication_slot('tidemark_main')");
  absl::Status gone = side_->TakeAway(record);
  EXPECT_TRUE(gone.ok()) << gone;
  EXPECT_EQ(left(), "0");
  gone = side_->TakeAway(record);
  EXPECT_TRUE(gone.ok()) << gone;
}

// An interruption that comes just before a call is not lost.
TEST_F(LogSideTest, AMoveThatIsInterruptedBeforeItBeginsEndsSoon) {
  Commit(1, 1);
  side_->Interrupt();
  const absl::Status interrupted = side_->MoveSlot(Look(), /*exactly=*/true).status();
  EXPECT_TRUE(absl::IsCancelled(interrupted)) << interrupted;
  EXPECT_EQ(CommitsLeft(), "1");
  EXPECT_EQ(Move(Look(), /*exactly=*/true).kind, SlotMove::Kind::kMoved) << "only that one call";
  EXPECT_EQ(CommitsLeft(), "0");
}

// A server that ends does not wait for a database that says nothing, nor tells of what that lacks.
TEST_F(LogSideTest, ACheckThatIsInterruptedEndsSoonAndRefusesNothing) {
  postgres_->Pause();
  const auto began = std::chrono::steady_clock::now();
  auto plan = std::async(std::launch::async, [&] { return side_->Check({}, {}); });
  do {
    side_->Interrupt();
  } while (plan.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready);
  const absl::Status found = plan.get().status();
  EXPECT_TRUE(absl::IsCancelled(found)) << found;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10))
      << "it waited for the connection's timeout";
  postgres_->Resume();
}

}  // namespace
}  // namespace tidemark::capture
