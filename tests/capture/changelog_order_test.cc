// In which order the transactions of a changelog are told, against real sessions that commit in
// another one than they began in: the cursors that lose or stall, and ours.
#include "absl/time/clock.h"
#include "tests/capture/changelog_fixture.h"

namespace tidemark::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr char kTable[] = "CREATE TABLE item (id int PRIMARY KEY, v text)";

std::string Json(int id, const std::string& v) {
  return fmt::format("{{\"v\": \"{}\", \"id\": {}}}", v, id);
}

// Each as a person would write it who has not met the case yet.
class SequenceCursor {
 public:
  explicit SequenceCursor(testing::LivePostgres& postgres) : postgres_(postgres) {}

  // Rows behind the cursor, which moves to the last.
  std::vector<std::string> Poll() {
    const auto rows = postgres_.Query(fmt::format(
        "SELECT seq, \"row\"->>'v' FROM tidemark.changelog WHERE seq > {} ORDER BY seq", cursor_));
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<std::string> values;
    for (const auto& row : rows->rows) {
      cursor_ = *row[0];
      values.push_back(row[1].value_or(""));
    }
    return values;
  }

 private:
  testing::LivePostgres& postgres_;
  std::string cursor_ = "0";
};

class ChangelogOrderTest : public ChangelogFixture {
 protected:
  ChangelogOrderTest()
      : ChangelogFixture(
            {.settings = {{"max_prepared_transactions", "5"}, {"autovacuum", "off"}}}) {}

  void SetUp() override {
    ChangelogFixture::SetUp();
    Exec(kTable);
    Install("{item}");
  }
};

// proves P01, P02, P14: the same interleaving, the plain cursor and ours.
TEST_F(ChangelogOrderTest, APlainSequenceCursorLosesTheLateRowAndOursDoesNot) {
  SequenceCursor plain(*postgres_);
  SourceDriver driver(ChangelogOf(*postgres_));
  auto a = Session();
  Do(a, "BEGIN");
  Do(a, "INSERT INTO item VALUES (1, 'late')");
  Exec("INSERT INTO item VALUES (2, 'early')");
  EXPECT_THAT(plain.Poll(), ElementsAre("early"));
  ASSERT_TRUE(Pulled(driver));
  EXPECT_THAT(Rows(driver), ElementsAre(Json(2, "early")));
  Do(a, "COMMIT");
  EXPECT_THAT(plain.Poll(), IsEmpty()) << "it is lost for ever";
  ASSERT_TRUE(Pulled(driver));
  EXPECT_THAT(Rows(driver), ElementsAre(Json(2, "early"), Json(1, "late")));
}

// proves P34: what makes the plain cursor safe makes somebody wait: every writer for the one before
// it, or for the reader and the reader for every writer. (Logical decoding, which does not, is what
// the rest of this program is about.)
TEST_F(ChangelogOrderTest, WhatMakesAPlainCursorSafeMakesOthersWait) {
  Exec("CREATE TABLE counter (n bigint); INSERT INTO counter VALUES (0)");
  int id = 1;
  for (const std::string one_at_a_time :
       {"SELECT pg_advisory_xact_lock(1)", "UPDATE counter SET n = n + 1"}) {
    SequenceCursor plain(*postgres_);
    plain.Poll();
    auto a = Session();
    auto b = Session();
    Do(a, "BEGIN");
    Do(a, one_at_a_time);
    Do(a, fmt::format("INSERT INTO item VALUES ({}, 'late')", id++));
    ASSERT_TRUE(
        b->Send(fmt::format("{}; INSERT INTO item VALUES ({}, 'early')", one_at_a_time, id++))
            .ok());
    ASSERT_TRUE(testing::WaitUntil(
        [&] { return Value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1"; }, 30s));
    EXPECT_THAT(plain.Poll(), IsEmpty());
    Do(a, "COMMIT");
    ASSERT_TRUE(b->Wait(30s).ok());
    EXPECT_THAT(plain.Poll(), ElementsAre("late", "early")) << one_at_a_time;
  }
  auto writer = Session();
  auto reader = Session();
  Do(writer, "BEGIN");
  Do(writer, fmt::format("INSERT INTO item VALUES ({}, 'late')", id));
  ASSERT_TRUE(reader->Send("BEGIN; LOCK TABLE tidemark.changelog IN SHARE MODE").ok());
  ASSERT_TRUE(testing::WaitUntil(
      [&] { return Value("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1"; }, 30s));
  Do(writer, "COMMIT");
  ASSERT_TRUE(reader->Wait(30s).ok());
}

// proves P02, P23: a number that was rolled back is a hole that nobody waits for.
TEST_F(ChangelogOrderTest, ARolledBackNumberIsNotWaitedFor) {
  for (const std::string strategy : {"snapshot", "xid_watermark"}) {
    Exec("TRUNCATE item, tidemark.changelog");
    SourceDriver driver(ChangelogOf(*postgres_, strategy));
    auto a = Session();
    Do(a, "BEGIN");
    Do(a, "INSERT INTO item VALUES (1, 'gone')");
    Do(a, "ROLLBACK");
    Exec("INSERT INTO item VALUES (2, 'next')");
    ASSERT_TRUE(Pulled(driver)) << strategy;
    EXPECT_EQ(Rows(driver).back(), Json(2, "next")) << strategy;
    EXPECT_EQ(driver.Status().changelog().waiting_rows(), 0u) << strategy;
  }
}

// proves B143, P25, X6: by (xid, seq) it would end as 'T2-first'.
TEST_F(ChangelogOrderTest, TheTransactionThatWroteLastIsToldLast) {
  Exec("INSERT INTO item VALUES (1, ''), (2, '')");
  SourceDriver ours(ChangelogOf(*postgres_));
  SourceDriver ours_by_ones(ChangelogOf(*postgres_, "snapshot", 1));
  SourceDriver classic(ChangelogOf(*postgres_, "xid_watermark"));
  ASSERT_TRUE(Pulled(ours));
  ASSERT_TRUE(Pulled(classic));
  auto t1 = Session();
  auto t2 = Session();
  Do(t1, "BEGIN");
  Do(t1, "UPDATE item SET v = 'x' WHERE id = 2");
  Do(t2, "BEGIN");
  Do(t2, "UPDATE item SET v = 'T2-first' WHERE id = 1");
  Do(t2, "COMMIT");
  ASSERT_TRUE(Pulled(ours));
  EXPECT_EQ(Folded(ours, "item")["{\"id\": 1}"], Json(1, "T2-first")) << "told at once";
  ASSERT_TRUE(Pulled(classic));
  EXPECT_EQ(Folded(classic, "item")["{\"id\": 1}"], Json(1, "")) << "it stalls behind T1";
  EXPECT_EQ(classic.Status().changelog().waiting_rows(), 1u);
  Do(t1, "UPDATE item SET v = 'T1-last' WHERE id = 1");
  Do(t1, "COMMIT");
  for (SourceDriver* driver : {&ours, &ours_by_ones, &classic}) ASSERT_TRUE(Pulled(*driver));
  const auto held = Held("item", {"id"});
  EXPECT_EQ(Folded(ours, "item"), held);
  EXPECT_EQ(Folded(ours_by_ones, "item"), held) << "all of it in one pull, row by row";
  EXPECT_EQ(held.at("{\"id\": 1}"), Json(1, "T1-last"));
  // Its weakness is stated, and is there.
  EXPECT_EQ(Folded(classic, "item")["{\"id\": 1}"], Json(1, "T2-first"));
  const SourceDescription described = classic.source().Describe();
  EXPECT_EQ(described.completeness, v1::COMPLETENESS_CLASS_BEST_EFFORT);
  EXPECT_THAT(described.notes.back(), HasSubstr("not of commits"));
  EXPECT_EQ(ours.source().Describe().completeness, v1::COMPLETENESS_CLASS_CHANGELOG);
}

// proves B145, P04: T2 at once by default, T1 when it commits; under the watermark T2 is held.
TEST_F(ChangelogOrderTest, ALowerNumberThatCommitsLaterIsNotLost) {
  for (const bool commits : {true, false}) {
    Exec("TRUNCATE item, tidemark.changelog");
    SourceDriver ours(ChangelogOf(*postgres_));
    SourceDriver classic(ChangelogOf(*postgres_, "xid_watermark"));
    auto t1 = Session();
    Do(t1, "BEGIN");
    Do(t1, "INSERT INTO item VALUES (1, 'T1')");
    Exec("INSERT INTO item VALUES (2, 'T2')");
    ASSERT_TRUE(Pulled(ours));
    ASSERT_TRUE(Pulled(classic));
    EXPECT_EQ(Rows(ours).back(), Json(2, "T2"));
    EXPECT_NE(Rows(classic).empty() ? "" : Rows(classic).back(), Json(2, "T2"));
    Do(t1, commits ? "COMMIT" : "ROLLBACK");
    ASSERT_TRUE(Pulled(ours));
    ASSERT_TRUE(Pulled(classic));
    EXPECT_EQ(Rows(ours).back(), commits ? Json(1, "T1") : Json(2, "T2"));
    EXPECT_EQ(Rows(classic).back(), Json(2, "T2"));
    EXPECT_EQ(Folded(ours, "item"), Held("item", {"id"}));
    EXPECT_EQ(Folded(classic, "item"), Held("item", {"id"}));
    EXPECT_EQ(ours.transactions.back().changes.size(), 1u) << "transactions of their own";
  }
}

// proves B147, P26, X5: one commit, whatever savepoints it had.
TEST_F(ChangelogOrderTest, SavepointsDoNotSplitACommit) {
  SourceDriver driver(ChangelogOf(*postgres_));
  ExecEach({"BEGIN", "INSERT INTO item VALUES (1, 'a')", "SAVEPOINT s",
            "INSERT INTO item VALUES (2, 'b')", "ROLLBACK TO s", "SAVEPOINT s2",
            "INSERT INTO item VALUES (3, 'c')", "COMMIT"});
  ASSERT_TRUE(driver.ReadUntilTransactions(1));
  ASSERT_TRUE(Pulled(driver));
  ASSERT_EQ(driver.transactions.size(), 1u);
  EXPECT_THAT(Rows(driver), ElementsAre(Json(1, "a"), Json(3, "c")));
  EXPECT_EQ(driver.transactions[0].record.source_transaction_id(),
            Value("SELECT DISTINCT xid FROM tidemark.changelog"));
  EXPECT_EQ(Value("SELECT count(DISTINCT xmin::text) FROM tidemark.changelog"), "2");
}

// proves P24: however long somebody else's transaction is open, in any database of the cluster,
// nothing of ours waits for it, and nothing of it is lost in the end.
TEST_F(ChangelogOrderTest, AnOldTransactionHoldsUpNobody) {
  Exec("CREATE DATABASE other");
  auto other = Session("other");
  Do(other, "CREATE TABLE x (a int)");
  Do(other, "BEGIN");
  Do(other, "INSERT INTO x VALUES (1)");
  auto own = Session();
  Do(own, "BEGIN");
  Do(own, "INSERT INTO item VALUES (1000, 'own')");
  SourceDriver driver(ChangelogOf(*postgres_));
  for (int i = 1; i <= 20; ++i) {
    Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
    ASSERT_TRUE(driver.ReadUntilTransactions(i));
    if (i % 7 == 0) driver.Restart();
  }
  Do(own, "COMMIT");
  ASSERT_TRUE(driver.ReadUntilTransactions(21));
  EXPECT_EQ(Rows(driver).back(), Json(1000, "own"));
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
  // What was told is not read again and again because of the old one.
  Do(other, "COMMIT");
  ASSERT_TRUE(Pulled(driver));
  EXPECT_EQ(driver.Status().changelog().last_rows_read(), 0u);
}

// proves P24: what is committed in an hour, once a second, behind a transaction that is open all
// the time: each of them is told by the pull that begins next.
TEST_F(ChangelogOrderTest, ATransactionThatIsOpenForAnHourDelaysNoOther) {
  auto open = Session();
  Do(open, "BEGIN");
  Do(open, "INSERT INTO item VALUES (100000, 'open')");
  SourceDriver driver(ChangelogOf(*postgres_));
  ASSERT_TRUE(Pulled(driver));
  constexpr int kMinutes = 60;
  constexpr int kCommitsAMinute = 60;
  for (int minute = 0; minute < kMinutes; ++minute) {
    Exec(
        fmt::format("DO $$ BEGIN FOR i IN {}..{} LOOP INSERT INTO item VALUES (i, 'x'); COMMIT; "
                    "END LOOP; END $$",
                    minute * kCommitsAMinute + 1, (minute + 1) * kCommitsAMinute));
    ASSERT_TRUE(Pulled(driver));
    ASSERT_EQ(driver.transactions.size(), size_t{kCommitsAMinute} * (minute + 1));
  }
  Do(open, "COMMIT");
  ASSERT_TRUE(Pulled(driver));
  ASSERT_EQ(driver.transactions.size(), size_t{kMinutes} * kCommitsAMinute + 1);
  EXPECT_EQ(Rows(driver).back(), Json(100000, "open"));
  EXPECT_EQ(Folded(driver, "item"), Held("item", {"id"}));
}

// proves P21, P30, X1, X2: each of those who hold the watermark back is named.
TEST_F(ChangelogOrderTest, WhoHoldsTheWatermarkBackIsNamed) {
  Exec("INSERT INTO item VALUES (0, '')");
  Exec("CREATE DATABASE other");
  auto holder = Session("other");
  Do(holder, "CREATE TABLE x (a int)");
  Do(holder, "INSERT INTO x VALUES (1)");
  SourceDriver driver(ChangelogOf(*postgres_, "xid_watermark"));
  int id = 1;
  for (const std::string sql :
       {"INSERT INTO x VALUES (2)", "SELECT * FROM x FOR UPDATE", "CREATE TEMP TABLE y (a int)"}) {
    ASSERT_TRUE(Pulled(driver));
    const size_t before = driver.transactions.size();
    Do(holder, "BEGIN");
    Do(holder, sql);
    Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", id++));
    ASSERT_TRUE(driver.ReadUntil([&] { return driver.Status().changelog().waiting_rows() == 1; }))
        << sql;
    const v1::ChangelogStatus status = driver.Status().changelog();
    EXPECT_THAT(status.held_by(),
                HasSubstr(fmt::format("pid {}, database other", holder->backend_pid())));
    EXPECT_EQ(fmt::format("{}", status.watermark_xid()),
              holder->QueryValue("SELECT pg_current_xact_id()").value_or(""));
    EXPECT_EQ(driver.transactions.size(), before) << sql;
    Do(holder, "ROLLBACK");
    ASSERT_TRUE(driver.ReadUntilTransactions(before + 1)) << sql;
  }
  ASSERT_TRUE(driver.ReadUntil([&] { return driver.Status().changelog().waiting_rows() == 0; }));
  EXPECT_EQ(driver.Status().changelog().held_by(), "");
  Do(holder, "BEGIN");
  Do(holder, "INSERT INTO x VALUES (3)");
  Do(holder, "PREPARE TRANSACTION 'forgotten'");
  Exec("INSERT INTO item VALUES (99, 'x')");
  ASSERT_TRUE(driver.ReadUntil([&] {
    return driver.Status().changelog().held_by().find(
               "prepared transaction 'forgotten', database "
               "other") != std::string::npos;
  }));
  Do(holder, "COMMIT PREPARED 'forgotten'");
  ASSERT_TRUE(driver.ReadUntil([&] { return Rows(driver).back() == Json(99, "x"); }));
}

// A role that may not see what others do is told so.
TEST_F(ChangelogOrderTest, AHolderThatMayNotBeSeenIsSaidToBeThere) {
  Exec(
      "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA tidemark TO reader; "
      "GRANT SELECT ON tidemark.changelog TO reader");
  v1::FeedConfig config = ChangelogOf(*postgres_, "xid_watermark");
  config.mutable_changelog()->mutable_postgres()->set_user("reader");
  SourceDriver driver(config);
  auto holder = Session();
  Do(holder, "BEGIN");
  Do(holder, "INSERT INTO item VALUES (1, 'x')");
  Exec("INSERT INTO item VALUES (2, 'x')");
  ASSERT_TRUE(driver.ReadUntil([&] {
    return driver.Status().changelog().held_by().find("pg_read_all_stats") != std::string::npos;
  }));
  EXPECT_THAT(driver.Status().changelog().held_by(),
              HasSubstr(fmt::format("pid {}", holder->backend_pid())));
}

// proves P22, X3: readers hold nobody up, however old their snapshot is.
TEST_F(ChangelogOrderTest, LongReadersDoNotHoldTheWatermarkBack) {
  auto reader = Session();
  Do(reader, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  Do(reader, "SELECT count(*) FROM item");
  auto locker = Session();
  Do(locker, "BEGIN");
  Do(locker, "LOCK TABLE tidemark.changelog IN ACCESS SHARE MODE");
  SourceDriver driver(ChangelogOf(*postgres_, "xid_watermark"));
  for (int i = 1; i <= 3; ++i) {
    Exec(fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
    ASSERT_TRUE(driver.ReadUntilTransactions(i));
  }
}

// proves P05, P07, P03: below the watermark everything is final, and comes by (xid, seq).
TEST_F(ChangelogOrderTest, WhatLiesBelowTheWatermarkIsFinal) {
  auto a = Session();
  auto b = Session();
  Do(a, "BEGIN");
  Do(b, "BEGIN");
  for (int i = 0; i < 10; ++i) {
    Do(i % 2 == 0 ? a : b, fmt::format("INSERT INTO item VALUES ({}, 'x')", i));
  }
  Do(b, "COMMIT");
  Do(a, "COMMIT");
  SourceDriver first(ChangelogOf(*postgres_, "xid_watermark", 3));
  ASSERT_TRUE(first.ReadUntilTransactions(2));
  for (int i = 10; i < 15; ++i) Exec(fmt::format("INSERT INTO item VALUES ({}, 'y')", i));
  SourceDriver second(ChangelogOf(*postgres_, "xid_watermark", 4));
  ASSERT_TRUE(second.ReadUntilTransactions(7));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first.transactions[i].run_bytes, second.transactions[i].run_bytes);
    EXPECT_EQ(first.transactions[i].position, second.transactions[i].position);
  }
  EXPECT_THAT(Rows(first),
              ElementsAre(Json(0, "x"), Json(2, "x"), Json(4, "x"), Json(6, "x"), Json(8, "x"),
                          Json(1, "x"), Json(3, "x"), Json(5, "x"), Json(7, "x"), Json(9, "x")));
}

// proves P20, X4: a watermark that is newer than the rows loses one; in one snapshot it does not.
TEST_F(ChangelogOrderTest, WatermarkAndRowsMustBeOfOneSnapshot) {
  auto writer = Session();
  Do(writer, "BEGIN");
  Do(writer, "INSERT INTO item VALUES (1, 'x')");
  auto unsafe = Session();
  const std::string rows =
      unsafe->QueryValue("SELECT count(*) FROM tidemark.changelog").value_or("");
  Do(writer, "COMMIT");
  const std::string watermark =
      unsafe->QueryValue("SELECT pg_snapshot_xmin(pg_current_snapshot())").value_or("");
  const std::string written = Value("SELECT xid FROM tidemark.changelog");
  EXPECT_EQ(rows, "0");
  EXPECT_GT(std::stoull(watermark), std::stoull(written)) << "it would pass the row unread";
  // Ours: the transaction has both, and the watermark in it does not move.
  auto safe = Session();
  Do(writer, "BEGIN");
  Do(writer, "INSERT INTO item VALUES (2, 'x')");
  Do(safe, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  const std::string before =
      safe->QueryValue("SELECT pg_snapshot_xmin(pg_current_snapshot())").value_or("");
  Do(writer, "COMMIT");
  EXPECT_EQ(safe->QueryValue("SELECT pg_snapshot_xmin(pg_current_snapshot())").value_or(""),
            before);
  EXPECT_EQ(safe->QueryValue("SELECT count(*) FROM tidemark.changelog").value_or(""), "1");
}

// proves P11: the next id is the same after a thousand pulls.
TEST_F(ChangelogOrderTest, PullsAssignNoTransactionId) {
  Exec("INSERT INTO item VALUES (1, 'x')");
  SourceDriver driver(ChangelogOf(*postgres_));
  SourceDriver classic(ChangelogOf(*postgres_, "xid_watermark"));
  ASSERT_TRUE(Pulled(driver));
  const std::string before = Value("SELECT pg_snapshot_xmax(pg_current_snapshot())");
  ASSERT_TRUE(Pulled(driver, 1000));
  ASSERT_TRUE(Pulled(classic, 10));
  EXPECT_EQ(Value("SELECT pg_snapshot_xmax(pg_current_snapshot())"), before);
}

}  // namespace
}  // namespace tidemark::capture
