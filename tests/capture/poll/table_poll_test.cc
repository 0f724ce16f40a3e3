// One table in one poll, of an engine that says what the test has it say.
#include "capture/poll/table_poll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/reason.h"
#include "tests/capture/poll/remembered_rows.h"
#include "tests/capture/poll/scripted_engine.h"

namespace tidemark::capture::poll {
namespace {

using ::testing::ElementsAre;

class TablePollTest : public ::testing::Test {
 protected:
  TablePollTest() {
    settings_.tables.push_back({.schema = "public", .table = "t", .cursor = "at"});
    engine_.window.shape.schema = ScriptedSchema();
    engine_.window.shape.key_columns = {"id"};
    engine_.window.shape.cursor_nullable = false;
    rows_.See(ScriptedSchema());
    builder_.Begin();
  }

  TablePoll Poll() {
    return TablePoll(
        {.settings = &settings_, .engine = &engine_, .comparison = &comparison_, .state = &state_},
        0);
  }
  void Window(std::vector<PolledRow> rows, bool at_end = true) {
    engine_.pages[PageOrder::Part::kWindow].push_back({std::move(rows), at_end});
  }
  // To its end; how many changes were told.
  uint64_t Run() {
    TablePoll poll = Poll();
    EXPECT_TRUE(poll.Begin().ok());
    const uint64_t before = builder_.changes();
    while (true) {
      const auto done = poll.Step(&sink_);
      EXPECT_TRUE(done.ok()) << done.status();
      if (!done.ok() || *done) return builder_.changes() - before;
    }
  }
  void Know(const PolledRow& row) {
    v1::Change change;
    change.set_op(v1::OP_INSERT);
    const auto values = ValuesOf(row.after);
    for (const std::string_view value : *values) {
      EXPECT_TRUE(change.add_after()->ParseFromString(std::string(value)));
    }
    rows_.Apply(ScriptedSchema(), change);
  }

  PollSettings settings_;
  ScriptedEngine engine_;
  RememberedRows rows_;
  RowComparison comparison_{&rows_};
  v1::PolledTableState state_;
  TransactionBuilder builder_;
  ChangeSink sink_{&builder_, false};
};

// proves A01, A38
TEST_F(TablePollTest, TheBoundMovesOnceTheWindowWasReadToItsEnd) {
  Window({ScriptedRow(1, "10"), ScriptedRow(2, "10")}, false);
  Window({ScriptedRow(3, "10")});
  TablePoll poll = Poll();
  ASSERT_TRUE(poll.Begin().ok());
  ASSERT_FALSE(*poll.Step(&sink_));
  EXPECT_EQ(state_.bound_cursor(), "") << "half of a tie was read";
  ASSERT_TRUE(*poll.Step(&sink_));
  EXPECT_EQ(BoundOf(state_), (CursorPlace{"10", {"3"}}));
  EXPECT_EQ(engine_.orders.back().after, (CursorPlace{"10", {"2"}}));
}

TEST_F(TablePollTest, TheBoundNeverMovesDown) {
  SetBound({"20", {"9"}}, &state_);
  PolledRow below = ScriptedRow(1, "15");
  below.below_bound = true;
  Window({below});
  EXPECT_EQ(Run(), 1u);
  EXPECT_EQ(BoundOf(state_), (CursorPlace{"20", {"9"}}));
  EXPECT_EQ(state_.late_rows(), 1u);
}

// proves A03, A35
TEST_F(TablePollTest, OnlyWhatCameWithAnOldStampIsLate) {
  for (const int64_t id : {1, 2, 3}) Know(ScriptedRow(id, "10"));
  std::vector<PolledRow> read = {ScriptedRow(1, "10"), ScriptedRow(2, "10", "y"),
                                 ScriptedRow(3, "11", "y"), ScriptedRow(4, "12")};
  for (PolledRow& row : read) row.below_bound = true;
  SetBound({"20", {"9"}}, &state_);
  Window(read);
  EXPECT_EQ(Run(), 3u);
  EXPECT_EQ(state_.late_rows(), 2u) << "3 moved to a stamp that was passed, and 4 is new";
}

// proves A42
TEST_F(TablePollTest, PoisonIsToldAndNamedAndMovesNothing) {
  engine_.window.shape.has_poison = true;
  engine_.pages[PageOrder::Part::kPoisonHigh].push_back({{ScriptedRow(8, "infinity")}, true});
  engine_.pages[PageOrder::Part::kPoisonLow].push_back({{ScriptedRow(9, "-infinity")}, true});
  Window({ScriptedRow(1, "10")});
  EXPECT_EQ(Run(), 3u);
  EXPECT_EQ(BoundOf(state_), (CursorPlace{"10", {"1"}}));
  EXPECT_EQ(state_.poison_rows(), 2u);
  EXPECT_THAT(state_.poison_keys(), ElementsAre("{\"id\":9}", "{\"id\":8}"));
}

// proves A23
TEST_F(TablePollTest, AKeyIsDeletedOnceHoweverManyTombstonesItHas) {
  Know(ScriptedRow(1, "10"));
  PolledRow overruled = ScriptedTombstone(3, "12");
  overruled.overruled = true;
  Know(ScriptedRow(3, "13"));
  PolledRow older = ScriptedTombstone(1, "11");
  older.left_to_younger = true;
  PolledRow buried = ScriptedRow(1, "10", "y");
  buried.overruled = true;
  buried.left_to_younger = true;
  Window({buried, older, ScriptedTombstone(1, "12"), ScriptedTombstone(1, "12"),
          ScriptedTombstone(2, "12"), overruled});
  EXPECT_EQ(Run(), 1u) << "2 was never told, and 3 is there";
  EXPECT_EQ(TombstoneBoundOf(state_).cursor, "12");
  EXPECT_EQ(state_.bound_cursor(), "10");
}

// proves A36
TEST_F(TablePollTest, RowsWithoutACursorStopTheTableUnlessTheyAreTakenOrLeft) {
  engine_.window.shape.cursor_nullable = true;
  engine_.nulls = 4;
  TablePoll failing = Poll();
  EXPECT_EQ(ReasonOf(failing.Begin()), reason::kCursorNull);
  EXPECT_EQ(state_.null_cursors(), 4u);
  settings_.tables[0].null_cursors = NullCursors::kExclude;
  EXPECT_EQ(Run(), 0u);
  EXPECT_EQ(state_.null_cursors(), 4u);
  settings_.tables[0].null_cursors = NullCursors::kInclude;
  PolledRow without = ScriptedRow(5, "");
  without.cursor.reset();
  engine_.pages[PageOrder::Part::kNulls].push_back({{without}, true});
  // proves A37
  Window({ScriptedRow(1, "10")});
  EXPECT_EQ(Run(), 2u);
  EXPECT_EQ(state_.null_cursors(), 1u);
  EXPECT_EQ(BoundOf(state_), (CursorPlace{"10", {"1"}}));
}

// proves A43
TEST_F(TablePollTest, ASourceThatWasSetBackIsRefusedUntilAPersonHasItCompared) {
  SetBound({"20", {"9"}}, &state_);
  engine_.window.rewound = true;
  engine_.window.highest = "12";
  TablePoll refused = Poll();
  EXPECT_EQ(ReasonOf(refused.Begin()), reason::kSourceRewound);
  state_.mutable_scan()->set_running(true);
  TablePoll by_period = Poll();
  EXPECT_EQ(ReasonOf(by_period.Begin()), reason::kSourceRewound) << "nobody was told";
  state_.mutable_scan()->set_ordered(true);
  engine_.top = {"12", {"4"}};
  TablePoll ordered = Poll();
  EXPECT_TRUE(ordered.Begin().ok());
  EXPECT_EQ(engine_.bounds.back(), engine_.top);
  EXPECT_EQ(BoundOf(state_), engine_.top);
}

TEST_F(TablePollTest, AnotherKeyIsRefusedAndAnotherTableCompared) {
  state_.add_key_columns("other");
  TablePoll other_key = Poll();
  EXPECT_EQ(ReasonOf(other_key.Begin()), reason::kIdentityChanged);
  state_.clear_key_columns();
  state_.set_table_oid(5);
  engine_.window.shape.table_oid = 6;
  TablePoll replaced = Poll();
  EXPECT_TRUE(replaced.Begin().ok());
  EXPECT_TRUE(state_.scan().running());
}

TEST_F(TablePollTest, AnotherCursorColumnIsReadFromItsBeginning) {
  state_.set_cursor_column("before");
  SetBound({"20", {"9"}}, &state_);
  TablePoll poll = Poll();
  EXPECT_TRUE(poll.Begin().ok());
  EXPECT_TRUE(engine_.bounds.back().empty());
  EXPECT_EQ(state_.cursor_column(), "at");
}

}  // namespace
}  // namespace tidemark::capture::poll
