#include "capture/postgres/table_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "capture/postgres/table_desk.h"
#include "capture/value_writer.h"
#include "proto/reason.h"
#include "tests/capture/postgres/memory_rows.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Name = TableVerifier::Name;

class RecordingSink final : public VerificationSink {
 public:
  bool Wanted() const override { return wanted && !end; }
  bool HasRoom() override { return room; }
  void Put(v1::VerifyResponse finding) override { records.push_back(std::move(finding)); }
  void End(const absl::Status& status) override { end = status; }

  bool wanted = true;
  bool room = true;
  std::vector<v1::VerifyResponse> records;
  std::optional<absl::Status> end;
};

Position At(uint64_t number) { return Position::Of(1, number); }

class TableVerifierTest : public ::testing::Test {
 protected:
  TableVerifierTest() {
    AddTable("t");
    for (int id = 1; id <= 9; ++id) {
      source_[id] = fmt::format("{0}\t{0}0\tx", id);
      known_.Put(id, source_[id]);
    }
  }

  v1::TableState& AddTable(const std::string& name) {
    const Name key("public", name);
    tables_[key] = {.oid = 7, .schema = "public", .table = name};
    states_[key].mutable_postgres()->set_published(true);
    return states_[key];
  }
  static TablePattern Pattern(const std::string& text) { return *TablePattern::Parse(text); }

  void Begin(std::vector<TablePattern> tables = {Pattern("public.t")}) {
    verifier_->Begin({std::move(tables), sink_});
  }

  // What PostgreSQL would answer.
  TableChunk Read(const ChunkOrder& order) const {
    TableChunk chunk{.relation = SampleRelation(keyed_)};
    const auto asked = [&](int64_t id) {
      return std::any_of(order.keys.begin(), order.keys.end(),
                         [id](const auto& key) { return key[0] == std::to_string(id); });
    };
    for (const auto& [id, line] : source_) {
      if (!order.keys.empty()) {
        if (asked(id)) chunk.lines.push_back(order.whole_rows ? line : std::to_string(id));
      } else if (order.after_key.empty() || id > std::stoi(order.after_key[0])) {
        if (chunk.lines.size() < order.rows_max) chunk.lines.push_back(line);
      }
    }
    chunk.at_end = chunk.lines.size() < order.rows_max;
    if ((order.keys.empty() || order.whole_rows) && chunk.lines.size() > lines_max_) {
      chunk.lines.resize(lines_max_);
      chunk.cut = true;
      chunk.at_end = false;
    }
    return chunk;
  }

  // Until it rests or ends; `meanwhile` is what the stream does between Open and the fence.
  void Run(const std::function<void(const ChunkOrder&)>& meanwhile = [](const auto&) {}) {
    while (true) {
      now_ = std::max(
          now_, verifier_->next_due() == absl::InfiniteFuture() ? now_ : verifier_->next_due());
      const auto order = verifier_->Next(rows_max_, now_);
      verifier_->Passed(now_);
      ASSERT_TRUE(order.ok()) << order.status();
      if (!order->has_value()) return;
      ++chunks_;
      ASSERT_LT(chunks_, 2000) << "it does not end";
      window_.Open();
      const TableChunk chunk = Read(**order);
      meanwhile(**order);
      if (window_.Holds(*XidSnapshot::Parse("10:10:"))) {
        ASSERT_TRUE(verifier_->Compare(chunk, At(++position_), now_).ok());
      } else {
        verifier_->ReadAgain(now_);
      }
    }
  }
  void Touch(int64_t id) { window_.Touch(MemoryRows::KeyText(id)); }

  // "missing {"id":3}", …; the totals last: "9 rows, 1 missing".
  std::vector<std::string> Found() const {
    std::vector<std::string> found;
    for (const v1::VerifyResponse& record : sink_->records) {
      EXPECT_EQ(record.table(), "public.t");
      const v1::VerifyTotals& totals = record.totals();
      if (record.last()) {
        found.push_back(fmt::format("{} rows: {} {} {} {} {}", totals.rows_compared(),
                                    totals.missing(), totals.extra(), totals.different(),
                                    totals.incomplete(), totals.not_comparable()));
        continue;
      }
      std::string text = v1::DifferenceKind_Name(record.kind()).substr(16) + record.key();
      for (const std::string& column : record.columns()) text += " " + column;
      for (const std::string& column : record.absent_columns()) text += " " + column + "?";
      found.push_back(text);
    }
    return found;
  }

  MemoryRows known_;
  std::map<int64_t, std::string> source_;
  bool keyed_ = true;
  ChunkWindow window_;
  ChunkComparison comparison_{&known_, &window_};
  TableSelection selection_{{Pattern("public.*")}};
  std::map<Name, v1::TableState> states_;
  std::map<Name, SourceTable> tables_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  std::unique_ptr<TableVerifier> verifier_ = std::make_unique<TableVerifier>(
      TableVerifier::Lent{&known_, &comparison_, &selection_, &states_, &tables_});
  size_t rows_max_ = 4;
  size_t lines_max_ = 100;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t position_ = 100;
  int chunks_ = 0;
};

TEST_F(TableVerifierTest, EqualRowsHaveNoDifference) {  // proves A52
  Begin();
  Run();
  EXPECT_THAT(Found(), ElementsAre("9 rows: 0 0 0 0 0"));
  EXPECT_EQ(sink_->records[0].totals().first_position(), At(102).Text());
  EXPECT_EQ(sink_->records[0].totals().last_position(), At(position_).Text());
  EXPECT_EQ(sink_->end, absl::OkStatus());
}

TEST_F(TableVerifierTest, NamesExactlyWhatDiffers) {  // proves A52
  known_.Erase(2);
  source_.erase(4);
  known_.Put(5, "5\t51\ty");
  std::string absent;
  AppendInteger(ValueTag::kAfter, 8, &absent);
  AppendInteger(ValueTag::kAfter, 80, &absent);
  AppendAbsent(ValueTag::kAfter, &absent);
  known_.PutImage(8, absent);
  Begin();
  Run();
  EXPECT_THAT(Found(),
              ElementsAre(R"(MISSING{"id":2})", R"(DIFFERENT{"id":5} a note)",
                          R"(INCOMPLETE{"id":8} note?)", R"(EXTRA{"id":4})", "9 rows: 1 1 1 1 0"));
}

// A row that changes meanwhile is neither passed over nor taken for equal.
TEST_F(TableVerifierTest, WhatWasTouchedIsLookedAtAgain) {  // proves A52
  known_.Put(3, "3\t31\tx");
  known_.Put(4, "4\t40\tother");
  source_.erase(9);
  int looks = 0;
  Begin();
  Run([&](const ChunkOrder&) {
    // 3 becomes equal, 4 stays wrong, 9 stays extra.
    if (++looks > 12) return;
    Touch(3), Touch(4), Touch(9);
    source_[3] = "3\t32\tx";
    known_.Put(3, "3\t32\tx");
  });
  EXPECT_THAT(Found(),
              ElementsAre(R"(DIFFERENT{"id":4} note)", R"(EXTRA{"id":9})", "9 rows: 0 1 1 0 0"));
}

TEST_F(TableVerifierTest, ARowThatNeverRestsIsCountedAsNotCompared) {  // proves A52
  known_.Put(3, "3\t31\tx");
  Begin();
  Run([&](const ChunkOrder&) { Touch(3); });
  EXPECT_THAT(Found(), ElementsAre("8 rows: 0 0 0 0 1"));
  EXPECT_EQ(sink_->end, absl::OkStatus());
  EXPECT_LT(chunks_, kLooksMax + 20);
}

// Rows so large that not all that are asked for come.
TEST_F(TableVerifierTest, WhatDoesNotFitIsAskedForAgain) {  // proves A52
  known_.Put(9, "9\t91\tx");
  lines_max_ = 2;
  int looks = 0;
  Begin();
  Run([&](const ChunkOrder&) {
    if (++looks > 8) return;
    for (int id = 1; id <= 9; ++id) Touch(id);
  });
  EXPECT_THAT(Found(), ElementsAre(R"(DIFFERENT{"id":9} a)", "9 rows: 0 0 1 0 0"));
}

TEST_F(TableVerifierTest, ARowThatGoesMeanwhileIsNoDifference) {  // proves A52
  Begin();
  bool gone = false;
  Run([&](const ChunkOrder& order) {
    if (order.rows_max == 0 || std::exchange(gone, true)) return;
    Touch(2);
    source_.erase(2);
    known_.Erase(2);
  });
  EXPECT_THAT(Found(), ElementsAre("8 rows: 0 0 0 0 0"));
}

TEST_F(TableVerifierTest, AChunkThatDoesNotHoldIsReadAgainButNotForEver) {  // proves A52
  known_.Erase(7);
  int reads = 0;
  Begin();
  Run([&](const ChunkOrder&) {
    if (++reads % 2 == 0) window_.Spoil();
  });
  EXPECT_THAT(Found(), ElementsAre(R"(MISSING{"id":7})", "9 rows: 1 0 0 0 0"));

  sink_ = std::make_shared<RecordingSink>();
  Begin();
  Run([&](const ChunkOrder& order) {
    if (order.rows_max > 0) window_.Spoil();
  });
  ASSERT_EQ(sink_->records.size(), 1u);
  EXPECT_TRUE(sink_->records[0].last());
  EXPECT_EQ(sink_->records[0].error().reason(), reason::kTableBusy);
  EXPECT_EQ(sink_->records[0].rows_compared(), 0u);
}

TEST_F(TableVerifierTest, WhatCannotBeReadIsSaid) {
  Begin();
  ASSERT_TRUE((*verifier_->Next(4, now_)).has_value());
  verifier_->Failed(ErrorWithReason(absl::StatusCode::kFailedPrecondition, reason::kSourcePrivilege,
                                    "permission denied"),
                    now_);
  Run();
  ASSERT_EQ(sink_->records.size(), 1u);
  EXPECT_EQ(sink_->records[0].error().reason(), reason::kSourcePrivilege);
  // What passes is tried again.
  sink_ = std::make_shared<RecordingSink>();
  Begin();
  ASSERT_TRUE((*verifier_->Next(4, now_)).has_value());
  verifier_->Failed(absl::AbortedError("the table was replaced"), now_);
  EXPECT_FALSE((*verifier_->Next(4, now_)).has_value());
  EXPECT_EQ(verifier_->next_due(), now_ + kTableRetryPeriod);
  Run();
  EXPECT_THAT(Found(), ElementsAre("9 rows: 0 0 0 0 0"));
}

// proves A52: what was found waits for its client in bounded memory.
TEST_F(TableVerifierTest, NothingIsReadWithoutRoomForWhatMayBeFound) {
  Begin();
  sink_->room = false;
  Run();
  EXPECT_EQ(chunks_, 0);
  EXPECT_EQ(verifier_->next_due(), absl::InfiniteFuture()) << "who makes room says so";
  sink_->room = true;
  Run();
  EXPECT_THAT(Found(), ElementsAre("9 rows: 0 0 0 0 0"));
}

TEST_F(TableVerifierTest, EndsWhenNobodyListens) {
  Begin();
  Run([&](const ChunkOrder& order) { sink_->wanted = order.rows_max == 0; });
  EXPECT_EQ(chunks_, 2);
  EXPECT_THAT(sink_->records, IsEmpty());
  EXPECT_FALSE(verifier_->active());
}

TEST_F(TableVerifierTest, AnUnfinishedOneSaysSo) {
  Begin();
  ASSERT_TRUE((*verifier_->Next(4, now_)).has_value());
  verifier_.reset();
  ASSERT_TRUE(sink_->end.has_value());
  EXPECT_EQ(ReasonOf(*sink_->end), reason::kSourceUnreachable);
}

TEST_F(TableVerifierTest, RefusesWhatTheFeedDoesNotHave) {
  Begin({Pattern("public.t"), Pattern("public.nowhere")});
  EXPECT_EQ(ReasonOf(*sink_->end), reason::kTableUnknown);
  EXPECT_THAT(sink_->end->ToString(), HasSubstr("public.nowhere"));
  sink_ = std::make_shared<RecordingSink>();
  Begin({Pattern("other.*")});
  EXPECT_EQ(ReasonOf(*sink_->end), reason::kTableUnknown);
  EXPECT_FALSE(verifier_->active());
}

// Each table by itself; the others are compared.
TEST_F(TableVerifierTest, RefusesTablesOneByOne) {  // proves A52
  v1::TableState& failed = AddTable("failed");
  failed.set_error_reason("SOURCE_SETTING");
  failed.set_error_message("run something");
  AddTable("gone");
  tables_.erase({"public", "gone"});
  AddTable("removed");
  selection_.Choose("public", "removed", v1::TABLE_CHOICE_REMOVED);
  Begin({Pattern("public.*"), Pattern("public.removed")});
  Run();
  std::vector<std::string> ends;
  for (const auto& record : sink_->records) {
    EXPECT_TRUE(record.last());
    ends.push_back(record.table() + " " + record.error().reason());
  }
  EXPECT_THAT(ends, ElementsAre("public.failed SOURCE_SETTING", "public.gone SOURCE_TABLE_MISSING",
                                "public.removed TABLE_UNKNOWN", "public.t "));
  EXPECT_EQ(sink_->end, absl::OkStatus());
}

TEST_F(TableVerifierTest, RefusesTablesThatHaveNothingToCompare) {  // proves A52
  const auto refusal = [&] {
    sink_ = std::make_shared<RecordingSink>();
    Begin();
    Run();
    return sink_->records.size() == 1 ? sink_->records[0].error().reason() : "none";
  };
  known_.SetKept(false);
  EXPECT_EQ(refusal(), reason::kRowsNotKept);
  keyed_ = false;
  EXPECT_EQ(refusal(), reason::kTableUnreadable);
  keyed_ = true;
  known_.SetKept(true);
  EXPECT_EQ(refusal(), "");
  // Given up while they were compared: nothing is called missing.
  sink_ = std::make_shared<RecordingSink>();
  Begin();
  Run([&](const ChunkOrder& order) { known_.SetKept(order.rows_max == 0); });
  ASSERT_EQ(sink_->records.size(), 1u);
  EXPECT_EQ(sink_->records[0].error().reason(), reason::kRowsNotKept);
}

TEST_F(TableVerifierTest, WaitsForTheReadingOfTheTable) {
  states_[{"public", "t"}].mutable_reading()->set_cause("it was asked for");
  Begin();
  Run();
  Run();
  ASSERT_EQ(sink_->records.size(), 1u) << "said once";
  EXPECT_THAT(sink_->records[0].waits_for(), HasSubstr("it was asked for"));
  EXPECT_FALSE(sink_->records[0].last());
  states_[{"public", "t"}].clear_reading();
  sink_->records.clear();
  Run();
  EXPECT_THAT(Found(), ElementsAre("9 rows: 0 0 0 0 0"));
}

// proves A52: whatever is read while the table is locked is read again, and no key is passed over.
TEST_F(TableVerifierTest, WaitsForALockedTable) {
  Begin();
  for (int i = 0; i < 4 * kChunkFailuresMax && !sink_->end; ++i) {
    now_ += kTableRetryPeriod;
    const auto order = verifier_->Next(rows_max_, now_);
    verifier_->Passed(now_);
    ASSERT_TRUE(order.ok()) << order.status();
    if (!order->has_value()) continue;
    if (i < kChunkFailuresMax + 10 || i % 2 == 0) {
      verifier_->Waits("waiting for a lock", now_);
    } else {
      window_.Open();
      ASSERT_TRUE(verifier_->Compare(Read(**order), At(++position_), now_).ok());
    }
  }
  ASSERT_EQ(sink_->records.size(), 2u) << "said once";
  EXPECT_EQ(sink_->records[0].waits_for(), "waiting for a lock");
  EXPECT_EQ(sink_->records[1].totals().rows_compared(), 9u);
  EXPECT_EQ(sink_->records[1].totals().missing() + sink_->records[1].totals().extra(), 0u);
}

TEST_F(TableVerifierTest, OneAtATime) {  // proves A52
  TableDesk desk;
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  EXPECT_EQ(ReasonOf(desk.PutVerify({{}, first})), reason::kSourceUnreachable);
  desk.SetStreaming(true);
  ASSERT_TRUE(desk.PutVerify({{}, first}).ok());
  EXPECT_EQ(ReasonOf(desk.PutVerify({{}, second})), reason::kVerificationRunning);
  EXPECT_EQ(desk.TakeVerify()->sink, first);
  EXPECT_FALSE(desk.TakeVerify().has_value());
  EXPECT_EQ(ReasonOf(desk.PutVerify({{}, second})), reason::kVerificationRunning);
  first->wanted = false;
  ASSERT_TRUE(desk.PutVerify({{}, second}).ok());
  // Not taken before the stream broke.
  desk.SetStreaming(false);
  ASSERT_TRUE(second->end.has_value());
  EXPECT_EQ(ReasonOf(*second->end), reason::kSourceUnreachable);
}

}  // namespace
}  // namespace tidemark::capture::postgres
