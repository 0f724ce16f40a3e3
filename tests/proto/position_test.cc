#include "proto/position.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tidemark {
namespace {

using namespace std::string_literals;

TEST(Position, OrdersByGenerationThenEngineThenOrdinal) {
  const std::vector<Position> ascending = {
      Position(),
      Position::Of(1, uint64_t{0x10}),
      Position::Of(1, uint64_t{0x10}, 1),
      Position::Of(1, uint64_t{0x10}, 256),
      Position::Of(1, uint64_t{0x10}).AfterAllOrdinals(),
      Position::Of(1, uint64_t{0x11}),
      Position::Of(1, UINT64_MAX),
      Position::Of(2, uint64_t{0}),
      Position::Of(UINT32_MAX, UINT64_MAX, UINT32_MAX),
  };
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(ascending[i] < ascending[j], i < j) << i << " " << j;
      EXPECT_EQ(ascending[i].bytes() < ascending[j].bytes(), i < j) << i << " " << j;
      // What a client sorts by.
      EXPECT_EQ(ascending[i].Text() < ascending[j].Text(), i < j) << i << " " << j;
    }
  }
}

// proves R21: compared as text, 3C/9 would be beyond 3C/1A.
TEST(Position, OrdersLsnsAsNumbers) {
  const Position nine = Position::Of(1, uint64_t{0x3C'0000'0009});
  const Position twenty_six = Position::Of(1, uint64_t{0x3C'0000'001A});
  EXPECT_LT(nine, twenty_six);
  EXPECT_LT(nine.Text(), twenty_six.Text());
}

// proves R21: a binlog file goes by its ordinal (binlog.999999 before binlog.1000000), and the
// offset counts inside the file only.
TEST(Position, OrdersBinlogFilesByOrdinalThenOffset) {
  const auto binlog = [](uint32_t file, uint64_t offset) {
    std::string engine;
    for (int shift = 24; shift >= 0; shift -= 8) engine.push_back(static_cast<char>(file >> shift));
    for (int shift = 56; shift >= 0; shift -= 8) {
      engine.push_back(static_cast<char>(offset >> shift));
    }
    return Position::Of(1, engine, 0);
  };
  EXPECT_LT(binlog(999'999, UINT64_MAX), binlog(1'000'000, 4));
  EXPECT_LT(binlog(12, 4711), binlog(12, uint64_t{5} << 32));
}

// Across the sign bit of a 64-bit number (S04).
TEST(Position, OrdersUnsigned) {
  EXPECT_LT(Position::Of(1, uint64_t{0x7FFF'FFFF'FFFF'FFFF}),
            Position::Of(1, uint64_t{0x8000'0000'0000'0000}));
}

// proves R10: SQL Server's LSN has 10 bytes, and fits.
TEST(Position, HoldsTenByteLsns) {
  const std::string low = "\x00\x00\x00\x2C\x00\x00\x01\x5A\x00\x01"s;
  const std::string high = "\x00\x00\x00\x2C\x00\x00\x01\x5A\x00\x02"s;
  const Position position = Position::Of(3, low, 0);
  EXPECT_EQ(position.engine(), "\0\0"s + low);
  EXPECT_LT(position, Position::Of(3, high, 0));
  EXPECT_EQ(*Position::FromText(position.Text()), position);
  const std::string largest(10, '\xFF');
  EXPECT_LT(Position::Of(3, largest, UINT32_MAX), Position::Of(4, low, 0));
}

// proves R13: a source with one position for each change (a cluster time and a counter) needs no
// sequence to tell them apart.
TEST(Position, HoldsOnePositionForEachChange) {
  const auto cluster_time = [](uint32_t seconds, uint32_t increment) {
    return Position::Of(1, uint64_t{seconds} << 32 | increment);
  };
  std::vector<Position> positions = {cluster_time(1'700'000'001, 1), cluster_time(1'700'000'000, 9),
                                     cluster_time(1'700'000'000, 10)};
  std::sort(positions.begin(), positions.end());
  EXPECT_EQ(positions[0], cluster_time(1'700'000'000, 9));
  EXPECT_EQ(positions[1], cluster_time(1'700'000'000, 10));
  EXPECT_EQ(positions[2], cluster_time(1'700'000'001, 1));
}

// proves R15: the position of a commit is one for all its changes; what Tidemark makes behind it
// has ordinals, and a native bound takes all of them in.
TEST(Position, OrdinalsStandBehindTheCommitAndBeforeTheNextOne) {
  const Position commit = Position::Of(1, uint64_t{100});
  EXPECT_EQ(commit.ordinal(), 0u);
  EXPECT_LT(commit, commit.WithOrdinal(1));
  EXPECT_LE(commit.WithOrdinal(UINT32_MAX), commit.AfterAllOrdinals());
  EXPECT_LT(commit.AfterAllOrdinals(), Position::Of(1, uint64_t{101}));
  EXPECT_EQ(commit.WithOrdinal(7).WithOrdinal(0), commit);
}

TEST(Position, ShowsItsMembers) {
  const Position position = Position::Of(0x01020304, uint64_t{0x16B3748}, 0x0A0B0C0D);
  EXPECT_EQ(position.Text(),
            "0102030400000000000000000"
            "16B37480A0B0C0D");
  EXPECT_EQ(position.generation(), 0x01020304u);
  EXPECT_EQ(position.engine_low(), 0x16B3748u);
  EXPECT_EQ(position.ordinal(), 0x0A0B0C0Du);
  EXPECT_EQ(position.bytes().size(), Position::kBytes);
}

TEST(Position, RefusesOtherTextAndBytes) {
  const std::string text = Position::Of(1, uint64_t{0xABCDEF}).Text();
  EXPECT_TRUE(Position::FromText(text).ok());
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  EXPECT_FALSE(Position::FromText(lower).ok());
  EXPECT_FALSE(Position::FromText("").ok());
  EXPECT_FALSE(Position::FromText(text.substr(1)).ok());
  EXPECT_FALSE(Position::FromText(text + "0").ok());
  EXPECT_FALSE(Position::FromText("G" + text.substr(1)).ok());
  EXPECT_FALSE(Position::FromBytes(std::string(19, '\0')).ok());
  EXPECT_FALSE(Position::FromBytes(std::string(21, '\0')).ok());
  EXPECT_EQ(*Position::FromBytes(std::string(20, '\0')), Position());
}

}  // namespace
}  // namespace tidemark
