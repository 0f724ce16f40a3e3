#include "capture/postgres/chunk_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    });
    return verdicts;
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
