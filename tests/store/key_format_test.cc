// The bytes of FORMAT.md, and that their order is the order of what they stand for.
#include "store/key_format.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "store/log_entry.h"
#include "store/log_sample.h"
#include "store/log_trim.h"

namespace tidemark::store {
namespace {

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

TEST(KeyFormatTest, LogKeyIsTheExampleOfTheFormat) {
  const LogKey key{1, Position::Of(1, 0x16B3748), 0, 0};
  EXPECT_EQ(Hex(key.Encode()),
            "00000001"
            "000000010000000000000000016b374800000000"
            "0000000000000000"
            "00000000");
  const auto decoded = LogKey::Decode(key.Encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->position, key.position);
  EXPECT_FALSE(LogKey::Decode(key.Encode().substr(1)));
  EXPECT_FALSE(LogKey::Decode(key.Encode() + "x"));
}

// proves R02: order of keys = order of feed, position, sequence, part.
TEST(KeyFormatTest, LogKeysSortAsTheLogIsRead) {
  std::vector<std::string> keys;
  for (const FeedId feed : {1u, 2u, 256u}) {
    for (const uint64_t engine : {uint64_t{1}, uint64_t{255}, uint64_t{256}, UINT64_MAX}) {
      for (const uint32_t ordinal : {0u, 1u}) {
        const Position position = Position::Of(1, engine, ordinal);
        for (const uint64_t sequence : {uint64_t{0}, uint64_t{300}, UINT64_MAX}) {
          for (const uint32_t part : {0u, 1u, 300u, UINT32_MAX}) {
            keys.push_back(LogKey{feed, position, sequence, part}.Encode());
          }
        }
        keys.push_back(LogKeyBehind(feed, position));
      }
    }
  }
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST(KeyFormatTest, SpoolKeysSortByTransactionThenSequence) {
  const std::vector<std::string> keys = {SpoolPrefix(1, 7), SpoolKey{1, 7, 0, 0}.Encode(),
                                         SpoolKey{1, 7, 256, 3}.Encode(), SpoolPrefix(1, 8),
                                         SpoolPrefix(2, 1)};
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  const auto decoded = SpoolKey::Decode(keys[2]);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->spool_id, 7);
  EXPECT_EQ(decoded->sequence, 256);
  EXPECT_EQ(decoded->part, 3);
}

TEST(KeyFormatTest, NoTableIsThePrefixOfAnother) {
  EXPECT_LT(RowsMarkerKey(1), RowsTablePrefix(1, "", ""));
  EXPECT_NE(RowsTablePrefix(1, "a", "bc"), RowsTablePrefix(1, "ab", "c"));
  EXPECT_GE(RowsTablePrefix(1, "public", "orders_old"),
            PrefixEnd(RowsTablePrefix(1, "public", "orders")));
  EXPECT_LT(RowsTablePrefix(1, "public", "orders") + "\xFF\xFF",
            PrefixEnd(RowsTablePrefix(1, "public", "orders")));
}

TEST(KeyFormatTest, ValuesAreReadBackAndCutOnesRefused) {
  const RowsMarker marker{Position::Of(1, 5), Position::Of(1, 2)};
  EXPECT_EQ(RowsMarker::Decode(marker.Encode())->folded, marker.folded);
  EXPECT_EQ(RowsMarker::Decode(marker.Encode())->snapshot, marker.snapshot);
  EXPECT_FALSE(RowsMarker::Decode(marker.Encode().substr(1)));
  const LogSample sample{-5, 77, 8};
  EXPECT_EQ(LogSample::Decode(sample.Encode())->newest_commit_time_us, -5);
  EXPECT_EQ(LogSample::Decode(sample.Encode())->log_bytes, 77);
  EXPECT_EQ(LogSample::Decode(sample.Encode())->transactions, 8);
  EXPECT_EQ(LogSample::Decode(sample.Encode().substr(0, 16))->transactions, 0) << "format 1";
  EXPECT_FALSE(LogSample::Decode(sample.Encode().substr(1)));
  const LogTrim trim{Position::Of(1, 5), -3, 9, 6};
  EXPECT_EQ(LogTrim::Decode(trim.Encode())->floor, trim.floor);
  EXPECT_EQ(LogTrim::Decode(trim.Encode())->commit_time_us, -3);
  EXPECT_EQ(LogTrim::Decode(trim.Encode())->log_bytes, 9);
  EXPECT_EQ(LogTrim::Decode(trim.Encode())->transactions, 6);
  EXPECT_EQ(LogTrim::Decode(trim.Encode().substr(0, 36))->transactions, 0) << "format 1";
  EXPECT_FALSE(LogTrim::Decode(trim.Encode().substr(1)));
}

TEST(LogEntryTest, HoldsTheRecordBeforeTheRun) {
  for (const size_t size : {0, 1, 127, 128, 20'000}) {
    const std::string record(size, 'r');
    const std::string value = LogEntryHead(record) + "run";
    const auto entry = LogEntry::Parse(value);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->record, record);
    EXPECT_EQ(entry->run, "run");
  }
  EXPECT_EQ(LogEntryHead(std::string(24, 'r')).substr(0, 1), "\x18");
}

TEST(LogEntryTest, RefusesALengthThatMakesNoSense) {
  EXPECT_TRUE(absl::IsDataLoss(LogEntry::Parse("").status()));
  EXPECT_TRUE(absl::IsDataLoss(LogEntry::Parse("\x05"
                                               "abcd")
                                   .status()));
  EXPECT_TRUE(absl::IsDataLoss(LogEntry::Parse("\xFF").status()));
  EXPECT_TRUE(
      absl::IsDataLoss(LogEntry::Parse("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01").status()));
}

}  // namespace
}  // namespace tidemark::store
