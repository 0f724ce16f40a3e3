#include "capture/postgres/chunk_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/value_writer.h"
#include "proto/reason.h"
#include "tests/capture/postgres/memory_rows.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::ElementsAre;

std::string Text(RowVerdict verdict) {
  switch (verdict) {
    case RowVerdict::kTouched:
      return "touched";
    case RowVerdict::kLeftOut:
      return "left out";
    case RowVerdict::kSame:
      return "same";
    case RowVerdict::kMissing:
      return "missing";
    case RowVerdict::kDifferent:
      return "different";
    case RowVerdict::kExtra:
      return "extra";
    case RowVerdict::kNowhere:
      return "nowhere";
  }
  return "?";
}

class ChunkComparisonTest : public ::testing::Test {
 protected:
  ChunkComparisonTest() { window_.Open(); }

  std::vector<std::string> Rows(std::vector<std::string> lines) {
    TableChunk chunk{.relation = SampleRelation(), .lines = std::move(lines)};
    std::vector<std::string> verdicts;
    status_ = comparison_.Rows(chunk, [&](const ComparedRow& row) {
      std::string text = row.key.substr(19) + " " + Text(row.verdict);
      for (const auto& column : row.columns) {
        text += " " + column.name + (column.absent ? "?" : "");
      }
      verdicts.push_back(text);
      images_[row.key] = std::string(row.after);
    });
    return verdicts;
  }
  // note is in none of the changes that the stream told of it.
  void TouchLeavingOutNote(int64_t id, uint64_t schema_id = SampleRelation().shape.schema_id) {
    window_.TouchLeavingOut(MemoryRows::KeyText(id), schema_id, std::vector<uint32_t>{2});
  }
  static std::string Row(int64_t id, int64_t a, std::optional<std::string> note) {
    std::string image;
    AppendInteger(ValueTag::kAfter, id, &image);
    AppendInteger(ValueTag::kAfter, a, &image);
    if (note) {
      AppendText(ValueTag::kAfter, *note, &image);
    } else {
      AppendAbsent(ValueTag::kAfter, &image);
    }
    return image;
  }
  std::vector<std::string> Keys(const std::vector<int64_t>& asked, std::vector<std::string> lines) {
    TableChunk chunk{.relation = SampleRelation(), .lines = std::move(lines)};
    std::vector<KnownKey> keys;
    for (const int64_t id : asked) keys.push_back({.key = MemoryRows::KeyText(id)});
    std::vector<std::string> verdicts;
    status_ = comparison_.Keys(chunk, keys, [&](const KnownKey& key, RowVerdict verdict) {
      verdicts.push_back(key.key.substr(19) + " " + Text(verdict));
    });
    return verdicts;
  }

  MemoryRows known_;
  ChunkWindow window_;
  ChunkComparison comparison_{&known_, &window_};
  absl::Status status_;
  // As they were told last, by key.
  std::map<std::string, std::string> images_;
};

TEST_F(ChunkComparisonTest, JudgesEveryRowThatWasRead) {  // proves A52
  known_.Put(1, "1\t10\tx");
  known_.Put(3, "3\t30\tx");
  known_.Put(5, "5\t50\tx");
  std::string absent;
  AppendInteger(ValueTag::kAfter, 4, &absent);
  AppendInteger(ValueTag::kAfter, 40, &absent);
  AppendAbsent(ValueTag::kAfter, &absent);
  known_.PutImage(4, absent);
  window_.Touch(MemoryRows::KeyText(5));
  EXPECT_THAT(
      Rows({"1\t10\tx", "2\t20\tx", "3\t31\t\\N", "4\t40\tx", "5\t0\tx"}),
      ElementsAre("1 same", "2 missing", "3 different a note", "4 different note?", "5 touched"));
  EXPECT_TRUE(status_.ok());
}

// proves H4, B001, B005: the column that the changes told is newer than the chunk, the one that
// they left out is only in the chunk.
TEST_F(ChunkComparisonTest, PutsWhatTheStreamLeftOutIntoWhatItTold) {
  const std::string large(5000, 'v');
  known_.PutImage(1, Row(1, 11, std::nullopt));
  known_.PutImage(2, Row(2, 21, "of a table that had its name"));
  known_.PutImage(3, Row(3, 31, "x"));
  for (const int64_t id : {1, 2, 3}) TouchLeavingOutNote(id);
  EXPECT_THAT(Rows({"1\t10\t" + large, "2\t20\ty", "3\t30\tx"}),
              ElementsAre("1 different note?", "2 different note", "3 same"));
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(images_[MemoryRows::KeyText(1)], Row(1, 11, large));
  EXPECT_EQ(images_[MemoryRows::KeyText(2)], Row(2, 21, "y"));
}

// proves H4: wholly written afterwards, gone afterwards, come to another key.
TEST_F(ChunkComparisonTest, SaysNothingOfARowThatWasToldAfterValuesWereLeftOut) {
  known_.Put(1, "1\t11\tnew");
  for (const int64_t id : {1, 2}) {
    TouchLeavingOutNote(id);
    window_.Touch(MemoryRows::KeyText(id));
  }
  EXPECT_THAT(Rows({"1\t10\told", "2\t20\told"}), ElementsAre("1 touched", "2 touched"));
}

TEST_F(ChunkComparisonTest, ARowThatDoesNotGoTogetherIsToBeReadAgain) {  // proves H4, B079
  const uint64_t other_schema = SampleRelation().shape.schema_id + 1;
  known_.Put(1, "1\t10\tx");
  TouchLeavingOutNote(1, other_schema);
  TouchLeavingOutNote(2);
  EXPECT_THAT(Rows({"1\t10\tx", "2\t20\tx"}), ElementsAre("1 left out", "2 left out"))
      << "told under another schema; and not known at all";
}

TEST_F(ChunkComparisonTest, JudgesEveryKeyThatWasAskedFor) {  // proves A52
  known_.Put(1, "1\t10\tx");
  known_.Put(2, "2\t20\tx");
  known_.Put(4, "4\t40\tx");
  window_.Touch(MemoryRows::KeyText(1));
  window_.Touch(MemoryRows::KeyText(4));
  EXPECT_THAT(Keys({1, 2, 3, 4}, {"1"}),
              ElementsAre("1 same", "2 extra", "3 nowhere", "4 touched"));
}

TEST_F(ChunkComparisonTest, WhatIsNoRowIsAnError) {
  Rows({"1\t10"});
  EXPECT_EQ(ReasonOf(status_), reason::kSourceProtocol);
  Keys({1}, {"one"});
  EXPECT_EQ(ReasonOf(status_), reason::kSourceProtocol);
}

TEST_F(ChunkComparisonTest, KeysAreAskedForAsTheyWereRead) {
  RowShape shape = SampleRelation().shape;
  shape.key_columns = {2, 0};
  EXPECT_THAT(KeyTextsOf(shape, "7\t10\ta\\tb"), ElementsAre("a\tb", "7"));
}

}  // namespace
}  // namespace tidemark::capture::postgres
