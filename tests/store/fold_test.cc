// The fold keeps the last change of every key, whatever the way there.
#include "store/fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "proto/reason.h"
#include "store/row_value.h"
#include "tests/store/sample_log.h"
#include "tests/testing/seed.h"
#include "tidemark/v1/feed.pb.h"

namespace tidemark::store {
namespace {

constexpr FeedId kFeed = 7;

// A rows family in memory.
class Rows {
 public:
  void Apply(const FoldedRows& folded) {
    for (const std::string& prefix : folded.truncated) {
      rows_.erase(rows_.lower_bound(prefix), rows_.lower_bound(PrefixEnd(prefix)));
    }
    std::string_view last;
    for (const FoldedRow& row : folded.rows) {
      EXPECT_LT(last, row.key) << "keys rise strictly";
      last = row.key;
      if (row.deleted) {
        rows_.erase(std::string(row.key));
      } else {
        rows_[std::string(row.key)] = std::string(row.value);
      }
    }
  }

  std::optional<std::string> Find(std::string_view key) const {
    const auto found = rows_.find(std::string(key));
    return found == rows_.end() ? std::nullopt : std::optional(found->second);
  }

  // One line per row: table's values as text, absent as "-", then @position.sequence.
  std::vector<std::string> Text() const {
    std::vector<std::string> lines;
    for (const auto& [key, value] : rows_) lines.push_back(RowText(value));
    return lines;
  }

 private:
  static std::string RowText(const std::string& stored) {
    const std::optional<StoredRow> row = DecodeRow(stored);
    EXPECT_TRUE(row.has_value());
    v1::Row message;
    EXPECT_TRUE(message.ParseFromArray(row->values.data(), static_cast<int>(row->values.size())));
    std::string text;
    for (const v1::Value& value : message.values()) {
      text += value.has_integer() ? std::to_string(value.integer())
              : value.has_text()  ? value.text()
              : value.has_null()  ? "null"
                                  : "-";
      text += " ";
    }
    return text + fmt::format("@{}.{}", row->position.engine_low(), row->sequence);
  }

  std::map<std::string, std::string> rows_;
};

class FoldTest : public ::testing::Test {
 protected:
  Fold NewFold() {
    return Fold(
        kFeed,
        {.schema = [this](uint64_t id) -> absl::StatusOr<v1::TableSchema> {
           const auto found = log_.schemas().find(id);
           if (found == log_.schemas().end()) return absl::NotFoundError("schema");
           return found->second;
         },
         .keeps_rows =
             [](const v1::TableSchema& schema) { return schema.table_name() != "without_rows"; },
         .stored_row = [this](std::string_view key) -> absl::StatusOr<std::optional<std::string>> {
           ++lookups_;
           return rows_.Find(key);
         }});
  }

  void Add(Fold* fold, const StoredRun& run) {
    const absl::Status status = fold->Add(run);
    ASSERT_TRUE(status.ok()) << status;
  }

  void Take(Fold* fold) {
    absl::StatusOr<FoldedRows> folded = fold->Take();
    ASSERT_TRUE(folded.ok()) << folded.status();
    rows_.Apply(*folded);
  }

  std::vector<std::string> FoldAll(const std::vector<StoredRun>& runs) {
    Fold fold = NewFold();
    for (const StoredRun& run : runs) Add(&fold, run);
    Take(&fold);
    return rows_.Text();
  }

  SampleLog log_;
  Rows rows_;
  int lookups_ = 0;
  const v1::TableSchema users_ = SampleSchema("users");
  const v1::Value absent_ = AbsentValue();
};

using Lines = std::vector<std::string>;

TEST_F(FoldTest, KeepsTheLastChangeOfEachKey) {
  EXPECT_EQ(FoldAll({log_.Run(10, users_,
                              {Insert(1, {TextValue("a"), NullOfDatabase()}),
                               Insert(2, {TextValue("b"), TextValue("x")}),
                               Update(1, {TextValue("a2"), TextValue("y")})}),
                     log_.Run(11, users_, {Delete(2), Insert(-3, {TextValue("c"), absent_})})}),
            (Lines{"-3 c - @11.1", "1 a2 y @10.2"}));
  EXPECT_EQ(lookups_, 0);
}

TEST_F(FoldTest, RemovesWhatWasStored) {
  FoldAll({log_.Run(10, users_,
                    {Insert(1, {TextValue("a"), absent_}), Insert(2, {TextValue("b"), absent_})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_, {Delete(1)})}), (Lines{"2 b - @10.1"}));
}

TEST_F(FoldTest, FillsAnAbsentColumnFromThePendingRow) {
  EXPECT_EQ(FoldAll({log_.Run(
                10, users_,
                {Insert(1, {TextValue("a"), TextValue("big")}),
                 Update(1, {TextValue("b"), absent_}), Update(1, {TextValue("c"), absent_})})}),
            (Lines{"1 c big @10.2"}));
  EXPECT_EQ(lookups_, 0);
}

TEST_F(FoldTest, FillsAnAbsentColumnFromTheStoredRow) {
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_, {Update(1, {NullOfDatabase(), absent_})})}),
            (Lines{"1 null big @11.0"}));
  EXPECT_EQ(lookups_, 1);
}

// Neither a removed row nor a truncated table lends its values.
TEST_F(FoldTest, LeavesAColumnAbsentWhereNoRowIsBefore) {
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_, {Delete(1), Update(1, {TextValue("b"), absent_})})}),
            (Lines{"1 b - @11.1"}));
  EXPECT_EQ(FoldAll({log_.Run(12, users_, {Truncate(), Update(1, {TextValue("c"), absent_})})}),
            (Lines{"1 c - @12.1"}));
  // An insert is a whole row: what was there before is another one.
  EXPECT_EQ(FoldAll({log_.Run(13, users_, {Insert(1, {TextValue("d"), TextValue("n")})}),
                     log_.Run(14, users_, {Insert(1, {TextValue("e"), absent_})})}),
            (Lines{"1 e - @14.0"}));
}

TEST_F(FoldTest, FillsByNameAcrossSchemas) {
  const v1::TableSchema wider = SampleSchema("users", {"note", "name", "more"});
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  EXPECT_EQ(FoldAll({log_.Run(11, wider, {Update(1, {absent_, absent_, absent_})})}),
            (Lines{"1 big - - @11.0"}))
      << "a name that stands further back is that of a column added again";
}

TEST_F(FoldTest, DoesNotFillFromAColumnOfAnotherType) {
  v1::TableSchema altered = users_;
  altered.mutable_columns(2)->set_source_type("character(9)");
  altered.set_schema_id(99);
  EXPECT_EQ(FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})}),
                     log_.Run(11, altered, {Update(1, {absent_, absent_})})}),
            (Lines{"1 a - @11.0"}));
}

// proves B045
TEST_F(FoldTest, AChangeOfTheKeyLeavesNoGhostAndKeepsTheRow) {
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_, KeyChange(1, 2, {TextValue("b"), absent_}))}),
            (Lines{"2 b big @11.1"}));
  // Twice in one run, the second time from a pending row.
  std::vector<v1::Change> changes = KeyChange(2, 3, {TextValue("c"), absent_});
  for (v1::Change& half : KeyChange(3, 2, {TextValue("d"), absent_})) changes.push_back(half);
  EXPECT_EQ(FoldAll({log_.Run(12, users_, changes)}), (Lines{"2 d big @12.3"}));
}

TEST_F(FoldTest, AChangeOfTheKeyAsksTheStoreOnlyWhenAColumnIsAbsent) {
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_, KeyChange(1, 2, {TextValue("b"), TextValue("c")}))}),
            (Lines{"2 b c @11.1"}));
  EXPECT_EQ(lookups_, 0);
}

TEST_F(FoldTest, TheHalvesOfAKeyChangeMayLieOnBothSidesOfATake) {
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), TextValue("big")})})});
  const std::vector<v1::Change> halves = KeyChange(1, 2, {TextValue("b"), absent_});
  Fold fold = NewFold();
  Add(&fold, log_.Run(11, users_, {halves[0]}));
  Take(&fold);
  EXPECT_EQ(rows_.Text(), Lines{});
  Add(&fold, log_.Run(11, users_, {halves[1]}));
  Take(&fold);
  EXPECT_EQ(rows_.Text(), (Lines{"2 b big @11.1"}));
}

TEST_F(FoldTest, TruncateEmptiesOneTable) {
  const v1::TableSchema orders = SampleSchema("orders");
  FoldAll({log_.Run(10, users_, {Insert(1, {TextValue("a"), absent_})}),
           log_.Run(10, orders, {Insert(1, {TextValue("o"), absent_})})});
  EXPECT_EQ(FoldAll({log_.Run(11, users_,
                              {Insert(2, {TextValue("b"), absent_}), Truncate(), Delete(9),
                               Insert(3, {TextValue("c"), absent_})})}),
            (Lines{"1 o - @10.1", "3 c - @11.3"}));
}

TEST_F(FoldTest, PutsValuesInPartsTogether) {
  const std::string big(1000, 'x');
  std::vector<StoredRun> runs =
      log_.RunInParts(10, users_, Insert(1, {TextValue("a"), TextValue(big)}), 2, 64);
  ASSERT_GT(runs.size(), 10u);
  runs.push_back(log_.Run(10, users_, {Insert(2, {TextValue("b"), absent_})}));
  EXPECT_EQ(FoldAll(runs), (Lines{"1 a " + big + " @10.0", "2 b - @10.1"}));
}

TEST_F(FoldTest, ATakeMayComeInsideAValue) {
  const std::string big(1000, 'x');
  Fold fold = NewFold();
  for (const StoredRun& run :
       log_.RunInParts(10, users_, Insert(1, {TextValue("a"), TextValue(big)}), 2, 300)) {
    Add(&fold, run);
    Take(&fold);
  }
  EXPECT_EQ(rows_.Text(), (Lines{"1 a " + big + " @10.0"}));
}

TEST_F(FoldTest, PassesOverTablesWithoutRows) {
  v1::TableSchema keyless = SampleSchema("keyless");
  keyless.clear_key_columns();
  keyless.set_schema_id(5);
  const v1::TableSchema off = SampleSchema("without_rows");
  EXPECT_EQ(FoldAll({log_.Run(10, keyless, {Insert(1, {TextValue("a"), absent_}), Truncate()}),
                     log_.Run(11, off, {Insert(1, {TextValue("a"), absent_}), Delete(2)})}),
            Lines{});
}

TEST_F(FoldTest, NamesWhatItCannotFold) {
  const Position at = Position::Of(1, 10);
  const auto error = [&](const std::vector<StoredRun>& runs) {
    Fold fold = NewFold();
    for (const StoredRun& run : runs) {
      const absl::Status status = fold.Add(run);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
  std::vector<StoredRun> interrupted =
      log_.RunInParts(10, users_, Insert(1, {TextValue("a"), TextValue("long")}), 2, 2);
  interrupted.resize(2);
  interrupted.push_back(log_.Run(10, users_, {Insert(2, {TextValue("a"), absent_})}));
  StoredRun garbage = log_.Run(10, users_, {});
  garbage.bytes = "\xFF\xFF";
  v1::Change odd = Insert(1, {TextValue("a"), absent_});
  odd.set_op(static_cast<v1::Op>(77));
  v1::Change no_key = Insert(1, {TextValue("a"), absent_});
  no_key.mutable_after(0)->clear_kind();
  const std::vector<std::pair<std::vector<StoredRun>, std::string_view>> table = {
      {interrupted, reason::kStoreDamaged},
      {{garbage}, reason::kStoreDamaged},
      {{log_.Run(10, users_, {odd})}, reason::kStoreDamaged},
      {{log_.Run(10, users_, {Insert(1, {absent_})})}, reason::kStoreDamaged},
      {{log_.Run(10, users_, {no_key})}, reason::kIdentityUnusable},
  };
  for (const auto& [runs, reason] : table) {
    const absl::Status status = error(runs);
    EXPECT_EQ(ReasonOf(status), reason) << status;
    EXPECT_EQ(DetailsOf(status)["position"], at.Text()) << status;
  }
}

// The model applies each change to a map; the fold sees the same changes, cut into runs and takes
// at random.
TEST_F(FoldTest, EqualsTheChangesAppliedOneByOne) {
  const uint64_t seed = testing::SeedFromEnvironment();
  SCOPED_TRACE(fmt::format("TIDEMARK_SEED={}", seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  using Cells = std::vector<std::string>;
  std::map<int64_t, Cells> model;
  Fold fold = NewFold();
  for (uint64_t position = 1; position <= 3000; ++position) {
    std::vector<v1::Change> changes;
    for (int n = 1 + pick(4); n > 0; --n) {
      const uint64_t sequence = changes.size();
      const int64_t id = pick(20);
      const bool keep_note = pick(2) == 0;
      const std::string name = fmt::format("n{}", random() % 1000);
      const std::string note = std::string(static_cast<size_t>(pick(40)), 'a' + pick(26));
      const auto stamp = [&](uint64_t s) { return fmt::format("@{}.{}", position, s); };
      const auto row = model.find(id);
      const int dice = pick(100);
      if (dice == 0) {
        changes.push_back(Truncate());
        model.clear();
      } else if (row == model.end()) {
        changes.push_back(Insert(id, {TextValue(name), TextValue(note)}));
        model[id] = {name, note, stamp(sequence)};
      } else if (dice < 20) {
        changes.push_back(Delete(id));
        model.erase(row);
      } else if (dice < 40) {
        const int64_t to = 100 + pick(20);
        if (model.contains(to)) continue;
        const std::string kept = row->second[1];
        for (const v1::Change& half :
             KeyChange(id, to, {TextValue(name), keep_note ? absent_ : TextValue(note)})) {
          changes.push_back(half);
        }
        model.erase(row);
        model[to] = {name, keep_note ? kept : note, stamp(sequence + 1)};
      } else {
        changes.push_back(Update(id, {TextValue(name), keep_note ? absent_ : TextValue(note)}));
        row->second = {name, keep_note ? row->second[1] : note, stamp(sequence)};
      }
    }
    for (size_t begin = 0; begin < changes.size();) {
      const size_t count = 1 + static_cast<size_t>(pick(static_cast<int>(changes.size() - begin)));
      Add(&fold, log_.Run(position, users_,
                          {changes.begin() + static_cast<ptrdiff_t>(begin),
                           changes.begin() + static_cast<ptrdiff_t>(begin + count)}));
      begin += count;
      if (pick(10) == 0) Take(&fold);
    }
  }
  Take(&fold);
  Lines expected;
  for (const auto& [id, cells] : model) {
    expected.push_back(fmt::format("{} {} {} {}", id, cells[0], cells[1], cells[2]));
  }
  EXPECT_EQ(rows_.Text(), expected);
}

}  // namespace
}  // namespace tidemark::store
