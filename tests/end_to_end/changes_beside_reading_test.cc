// Changes that are made to a table while it is read beside the stream, and do not say all of a row:
// what the reading finds is put together with them rightly.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/end_to_end/statement_writer.h"
#include "tests/end_to_end/table_fixture.h"

namespace tidemark::testing {
namespace {

constexpr v1::TableFollowState kFollowed = v1::TABLE_FOLLOW_STATE_FOLLOWED;
constexpr v1::TableFollowState kReading = v1::TABLE_FOLLOW_STATE_READING;

// Adds to n of the rows 1 to `rows` of public.u without a pause, every second time to that of the
// first row, and never touches their other columns.
class CountingWriter : public StatementWriter {
 public:
  CountingWriter(const LivePostgres& postgres, int rows)
      : StatementWriter(
            postgres,
            [rows, random = std::mt19937_64(7)](int tried) mutable {
              const int id = tried % 2 == 0 ? 1 : 1 + static_cast<int>(random() % rows);
              return fmt::format("update u set n = n + 1 where id = {}", id);
            },
            std::chrono::milliseconds(0)) {}
};

class ChangesBesideReadingTest : public TableFixture {
 protected:
  // Many chunks; what may be under way at a time is a part of them.
  static constexpr uint64_t kRows = 30'000;
  static constexpr uint64_t kRowsUnderWayMax = 20'000;
  static constexpr int kCounters = 500;

  void CreateTable() {
    Exec(
        {"create table u (id int, part int, big text, primary key (id, part))",
         "alter table u alter big set storage external",
         fmt::format("insert into u select i, 1, case when i > {0} - 10 then repeat('v', 4000) end "
                     "from generate_series(1, {0}) i",
                     kRows)});
  }
  // Few rows, each with a value that stands outside of it, which a change of n does not send.
  void CreateCounters() {
    Exec({"create table u (id int primary key, n int, big text)",
          "alter table u alter big set storage external",
          fmt::format("insert into u select i, 0, repeat(md5(i::text), 100) from "
                      "generate_series(1, {}) i",
                      kCounters)});
  }
  ::testing::AssertionResult WaitUntilWritten(const CountingWriter& writer, int more) {
    const int enough = writer.done() + more;
    return WaitUntil([&] { return writer.done() >= enough; }, kDeadline,
                     [&] { return fmt::format("{} changes", writer.done()); });
  }
  static LiveTidemarkOptions Only(const std::string& tables) {
    LiveTidemarkOptions options;
    options.postgres_lines = {"tables: [" + tables + "]"};
    return options;
  }

  // While the beginning of u is read and its end is not.
  void ExecWhileReadInPart(const std::string& sql) {
    ASSERT_TRUE(WaitUntil(
        [&] {
          const v1::TableStatus status = StatusOf("public.u");
          return status.state() == kReading && status.rows_read() > 0;
        },
        kDeadline, [&] { return StatusOf("public.u").ShortDebugString(); }));
    auto session = postgres_->Connect();
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    absl::Status done = session_->Exec("begin; lock table u in access exclusive mode");
    ASSERT_TRUE(done.ok()) << done;
    const v1::TableStatus status = StatusOf("public.u");
    ASSERT_EQ(status.state(), kReading);
    ASSERT_LT(status.rows_read(), kRows - kRowsUnderWayMax);
    done = session_->Exec(sql);
    ASSERT_TRUE(done.ok()) << done;
  }
  // From the end, where big is not null, to the beginning.
  static std::string MoveRows() {
    return fmt::format("update u set id = -id where id > {}; commit", kRows - 5);
  }
  void Replace() {
    Exec({"create table u_new (like u including all)", "insert into u_new select * from u",
          "update u_new set big = big || 'x' where big is not null",
          "begin; drop table u; alter table u_new rename to u; commit"});
  }
  void ExpectEqual() {
    CatchUp();
    const std::vector<std::string> here = Here("public.u");
    const std::vector<std::string> there = There("public.u");
    std::vector<std::string> only_here;
    std::set_difference(here.begin(), here.end(), there.begin(), there.end(),
                        std::back_inserter(only_here));
    for (std::string& row : only_here) {
      row = fmt::format("{}… of {} bytes", row.substr(0, 20), row.size());
    }
    EXPECT_THAT(only_here, ::testing::IsEmpty());
    EXPECT_EQ(here.size(), there.size());
  }

  std::unique_ptr<PgSession> session_;
};

// proves H4, B001, B005: nothing was known of the row where it came from.
TEST_F(ChangesBesideReadingTest, ARowOfANewTableMovesToWhatIsRead) {
  SetUpPostgres();
  CreateTable();
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable("public.u").ok());
  ExecWhileReadInPart(MoveRows());
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "new to the feed"));
  ExpectEqual();
}

// proves H4, B001, B005: it moves before the snapshot of a chunk behind which there is no row.
TEST_F(ChangesBesideReadingTest, ARowMovesOutOfTheLastChunk) {
  SetUpPostgres();
  CreateTable();
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable("public.u").ok());
  // The chunk that waits for the lock finds nothing.
  ExecWhileReadInPart(fmt::format(
      "update u set id = -id where id > {}; delete from u where id > 0; commit", kRows - 5));
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "new to the feed"));
  ExpectEqual();
  EXPECT_EQ(There("public.u").size(), 5u);
}

// proves H4, B001, B005: every chunk is passed by changes of its rows that leave a value out, and
// the first row by some each time that it is read.
TEST_F(ChangesBesideReadingTest, ATableIsAddedAndReadAgainBesideChangesWithoutAPause) {
  SetUpPostgres();
  CreateCounters();
  StartServer(Only("public.marker"));
  CountingWriter writer(*postgres_, kCounters);
  ASSERT_TRUE(WaitUntilWritten(writer, 100));
  ASSERT_TRUE(AddTable("public.u").ok());
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "new to the feed"));
  ASSERT_TRUE(WaitUntilWritten(writer, 100));
  ASSERT_TRUE(StartSnapshot("public.u").ok());
  ASSERT_TRUE(WaitForState("public.u", kFollowed, "it was asked for"));
  ASSERT_TRUE(WaitUntilWritten(writer, 100)) << "it was written all the time";
  writer.Stop();
  ExpectEqual();
}

// proves H4, B001, B005, B021: what is known of the values that are left out is of another table.
TEST_F(ChangesBesideReadingTest, ATableIsReplacedBesideChangesWithoutAPause) {
  SetUpPostgres();
  CreateCounters();
  StartServer(Only("public.u, public.marker"));
  CatchUp();
  CountingWriter writer(*postgres_, kCounters);
  ASSERT_TRUE(WaitUntilWritten(writer, 100));
  Replace();
  ASSERT_TRUE(WaitUntilWritten(writer, 100));
  ASSERT_TRUE(WaitUntilSettled("public.u"));
  ASSERT_TRUE(WaitUntilWritten(writer, 100)) << "it was written all the time";
  writer.Stop();
  ExpectEqual();
}

// proves H4, B001, B005, B021: what was known of it is what another table held.
TEST_F(ChangesBesideReadingTest, ARowOfAReplacedTableMovesToWhatIsRead) {
  SetUpPostgres();
  CreateTable();
  StartServer(Only("public.u, public.marker"));
  CatchUp();
  Replace();
  ExecWhileReadInPart(MoveRows());
  ASSERT_TRUE(WaitUntilSettled("public.u"));
  ExpectEqual();
}

// proves H4, B001, B005, B077: which rows moved is known after a death as well.
TEST_F(ChangesBesideReadingTest, TheServerDiesBeforeAMovedRowIsReadAgain) {
  SetUpPostgres();
  CreateTable();
  StartServer(Only("public.u, public.marker"));
  CatchUp();
  Replace();
  // No chunk is read behind the one that waits for the lock already.
  ExecWhileReadInPart(MoveRows() + "; begin; lock table u in access exclusive mode");
  ASSERT_FALSE(HasFatalFailure());
  CatchUp();
  tidemark_->Kill9();
  ASSERT_TRUE(session_->Exec("commit").ok());
  StartServer();
  ASSERT_TRUE(WaitUntilSettled("public.u"));
  ExpectEqual();
}

// proves B017, H4: the stream is far behind the look that found that all rows were rewritten.
TEST_F(ChangesBesideReadingTest, AChangeFromBeforeTheLookIsNotBesideTheReading) {
  SetUpPostgres();
  Exec({"create table t (id int primary key, v int)", "insert into t values (1, 10), (2, 20)",
        "create table noise (n int)"});
  StartServer(Only("public.t, public.marker"));
  CatchUp();
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  tidemark_->Kill9();
  Exec({"insert into noise select generate_series(1, 400000)", "update t set v = v where id = 1",
        "alter table t alter v type int using v + 1"});
  StartServer();
  ASSERT_TRUE(WaitUntilSettled("public.t"));
  CatchUp();
  EXPECT_EQ(Here("public.t"), There("public.t"));
}

// proves B079: the place where the reading stands is no key any more.
TEST_F(ChangesBesideReadingTest, TheKeyMayGetFewerColumns) {
  SetUpPostgres();
  CreateTable();
  StartServer(Only("public.marker"));
  ASSERT_TRUE(AddTable("public.u").ok());
  ExecWhileReadInPart(
      "alter table u drop constraint u_pkey; alter table u add primary key (id); commit");
  ASSERT_TRUE(WaitUntilSettled("public.u"));
  ExpectEqual();
}

}  // namespace
}  // namespace tidemark::testing
