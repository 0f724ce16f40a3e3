// Every way in which a cursor can be wrong has its own reason, code and details.
#include "store/cursor.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "proto/reason.h"

namespace tidemark::store {
namespace {

const std::string kFeed = "feed-one";
const std::string kFeedHex = "666565642d6f6e65";
const Position kPosition = Position::Of(3, 0x16B3748);

CursorCodec Codec() { return CursorCodec({{1, std::string(32, 'k')}}, 1); }

std::string Binary(const std::string& cursor) {
  std::string binary;
  EXPECT_TRUE(absl::WebSafeBase64Unescape(cursor, &binary));
  return binary;
}

void ExpectRefused(const std::string& cursor, std::string_view reason, const ErrorDetails& details,
                   const std::string& what) {
  const absl::StatusOr<Position> decoded = Codec().Decode(cursor, kFeed);
  ASSERT_FALSE(decoded.ok()) << what;
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument) << what;
  EXPECT_EQ(ReasonOf(decoded.status()), reason) << what;
  const ErrorDetails found = DetailsOf(decoded.status());
  for (const auto& [key, value] : details) {
    const auto at = found.find(key);
    ASSERT_NE(at, found.end()) << what << " lacks " << key;
    EXPECT_EQ(at->second, value) << what << ", " << key;
  }
}

TEST(CursorTest, ComesBackAsThePositionThatItNames) {
  const std::string cursor = Codec().Encode(kFeed, kPosition);
  EXPECT_EQ(cursor.size(), 62u);
  const absl::StatusOr<Position> decoded = Codec().Decode(cursor, kFeed);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, kPosition);
}

// The form is for life: a client may hold a cursor for years.
// proves R60, S24
TEST(CursorTest, HasTheFormThatOlderServersGave) {
  EXPECT_EQ(Codec().Encode(kFeed, kPosition),
            "AQFmZWVkLW9uZQAAAAMAAAAAAAAAAAFrN0gAAAAAfWJtWLLiKp8pR3C9UtvY3g");
}

TEST(CursorTest, NamesEachDefectOfForm) {
  const std::string good = Codec().Encode(kFeed, kPosition);
  const std::map<std::string, std::string> table = {
      {"empty", ""},
      {"one character", "A"},
      {"not base64", good.substr(0, 61) + "!"},
      {"padded", good + "=="},
      {"with a line end", good + "\n"},
      {"with a blank in it", good.substr(0, 30) + " " + good.substr(30)},
      {"with a zero byte", good + std::string(1, '\0')},
      {"twice", good + good},
      {"1 MB of base64", std::string(1 << 20, 'A')},
      {"1 MB of bytes", std::string(1 << 20, '\xff')},
      {"longest that is decoded", "AQ" + std::string(2046, 'A')},
  };
  for (const auto& [what, cursor] : table) {
    ExpectRefused(cursor, reason::kCursorMalformed,
                  {{"found_bytes", std::to_string(cursor.size())}}, what);
  }
}

TEST(CursorTest, RefusesEveryTruncation) {
  const std::string good = Codec().Encode(kFeed, kPosition);
  for (size_t size = 0; size < good.size(); ++size) {
    ExpectRefused(good.substr(0, size), reason::kCursorMalformed,
                  {{"found_bytes", std::to_string(size)}}, "cut to " + std::to_string(size));
  }
}

// Which check finds a flipped bit of the binary form depends on where it is.
TEST(CursorTest, RefusesEveryFlippedBitWithTheReasonOfItsField) {
  const std::string good = Binary(Codec().Encode(kFeed, kPosition));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    const size_t byte = bit / 8;
    const std::string_view expected = byte < 1    ? reason::kCursorVersion
                                      : byte < 2  ? reason::kCursorForged
                                      : byte < 10 ? reason::kCursorOtherFeed
                                                  : reason::kCursorForged;
    ExpectRefused(absl::WebSafeBase64Escape(bad), expected, {}, "bit " + std::to_string(bit));
  }
}

// Some of the text's bits carry nothing; even those may not change.
TEST(CursorTest, RefusesEveryFlippedBitOfTheText) {
  const std::string good = Codec().Encode(kFeed, kPosition);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(Codec().Decode(bad, kFeed).ok()) << "bit " << bit;
  }
}

TEST(CursorTest, SaysWhichVersionItFound) {
  std::string binary = Binary(Codec().Encode(kFeed, kPosition));
  binary[0] = 2;
  const ErrorDetails details = {{"found_version", "2"}, {"supported_version", "1"}};
  ExpectRefused(absl::WebSafeBase64Escape(binary), reason::kCursorVersion, details, "newer");
  // A newer version may well be longer.
  ExpectRefused(absl::WebSafeBase64Escape(binary + std::string(100, 'x')), reason::kCursorVersion,
                details, "newer and longer");
}

// Whoever holds another feed's cursor learns that before its signature is looked at.
TEST(CursorTest, SaysOfWhichFeedItIs) {
  const CursorCodec elsewhere({{9, std::string(16, 'e')}}, 9);
  ExpectRefused(elsewhere.Encode("feed-two", kPosition), reason::kCursorOtherFeed,
                {{"found_feed_identity", "666565642d74776f"}, {"feed_identity", kFeedHex}},
                "other feed");
}

TEST(CursorTest, SaysWhichKeyIsUnknown) {
  const CursorCodec elsewhere({{9, std::string(32, 'k')}}, 9);
  ExpectRefused(elsewhere.Encode(kFeed, kPosition), reason::kCursorForged,
                {{"key_id", "9"}, {"known_key_ids", "1"}}, "unknown key");
}

TEST(CursorTest, RefusesASignatureByAnotherKeyOfTheSameId) {
  const CursorCodec elsewhere({{1, std::string(32, 'x')}}, 1);
  ExpectRefused(elsewhere.Encode(kFeed, kPosition), reason::kCursorForged, {{"key_id", "1"}},
                "other secret");
}

TEST(CursorTest, StillReadsWhatAnOlderKeySigned) {
  const CursorCodec rotated({{1, std::string(32, 'k')}, {2, std::string(100, 'n')}}, 2);
  EXPECT_TRUE(rotated.Decode(Codec().Encode(kFeed, kPosition), kFeed).ok());
  const std::string fresh = rotated.Encode(kFeed, kPosition);
  EXPECT_EQ(Binary(fresh)[1], 2);
  EXPECT_TRUE(rotated.Decode(fresh, kFeed).ok());
}

}  // namespace
}  // namespace tidemark::store
