// Every form from literal text, and text that no server prints. What a real server prints is in
// value_live_test.cc.
#include "capture/postgres/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/reason.h"
#include "tidemark/v1/change.pb.h"

namespace tidemark::capture::postgres {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kBool = 16, kBytea = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kText = 25,
                   kOid = 26, kXid = 28, kJson = 114, kFloat4 = 700, kFloat8 = 701, kBpchar = 1042,
                   kDate = 1082, kTime = 1083, kTimestamp = 1114, kTimestamptz = 1184,
                   kInterval = 1186, kTimetz = 1266, kNumeric = 1700, kUuid = 2950, kJsonb = 3802,
                   kXid8 = 5069, kInt4s = 1007, kTexts = 1009, kBoxes = 1020, kByteas = 1001,
                   kTimestamptzs = 1185, kJsonbs = 3807;
constexpr uint32_t kMood = 20001, kMoods = 20002, kIntDomain = 20003, kTextsDomain = 20004,
                   kPair = 20005, kPairs = 20006, kNested = 20007, kEmptyRow = 20008,
                   kOneField = 20009, kTextsDomains = 20010;

TypeCatalog Catalog() {
  TypeCatalog catalog;
  const auto array = [&](uint32_t oid, uint32_t element) {
    catalog.Add({.oid = oid, .kind = TypeKind::kArray, .element_oid = element});
  };
  catalog.Add({.oid = kMood, .name = "mood", .kind = TypeKind::kEnum});
  array(kMoods, kMood);
  catalog.Add({.oid = kIntDomain, .name = "id", .kind = TypeKind::kDomain, .base_oid = kInt4});
  catalog.Add({.oid = kTextsDomain, .name = "tags", .kind = TypeKind::kDomain, .base_oid = kTexts});
  array(kTextsDomains, kTextsDomain);
  catalog.Add({.oid = kPair,
               .name = "pair",
               .kind = TypeKind::kComposite,
               .fields = {{"a", kInt4, -1}, {"b", kText, -1}}});
  array(kPairs, kPair);
  catalog.Add({.oid = kNested,
               .name = "nested",
               .kind = TypeKind::kComposite,
               .fields = {{"pairs", kPairs, -1}, {"moods", kMoods, -1}, {"pair", kPair, -1}}});
  catalog.Add({.oid = kEmptyRow, .name = "nothing", .kind = TypeKind::kComposite});
  catalog.Add({.oid = kOneField,
               .name = "one",
               .kind = TypeKind::kComposite,
               .fields = {{"a", kText, -1}}});
  return catalog;
}

absl::StatusOr<v1::Value> Encoded(uint32_t type, std::string_view text) {
  static const TypeCatalog& catalog = *new TypeCatalog(Catalog());
  std::string out;
  if (absl::Status status = EncodeText(type, text, catalog, ValueTag::kAfter, &out); !status.ok()) {
    return status;
  }
  v1::Change change;
  EXPECT_TRUE(change.ParseFromString(out)) << text;
  EXPECT_EQ(change.SerializeAsString(), out) << "not as protobuf would write it: " << text;
  EXPECT_EQ(change.after_size(), 1);
  return change.after_size() == 1 ? change.after(0) : v1::Value();
}

v1::Value Value(uint32_t type, std::string_view text) {
  const auto value = Encoded(type, text);
  EXPECT_TRUE(value.ok()) << value.status() << " for " << text;
  return value.ok() ? *value : v1::Value();
}

std::string Shown(const v1::Value& value) { return value.ShortDebugString(); }

void ExpectRefused(uint32_t type, std::string_view text) {
  const auto value = Encoded(type, text);
  EXPECT_FALSE(value.ok()) << "type " << type << " took " << testing::PrintToString(text);
  EXPECT_EQ(ReasonOf(value.status()), reason::kSourceProtocol);
}

TEST(Value, Booleans) {
  EXPECT_TRUE(Value(kBool, "t").boolean());
  EXPECT_EQ(Value(kBool, "f").kind_case(), v1::Value::kBoolean);
  for (const char* text : {"", "true", "T", "1", "tt"}) ExpectRefused(kBool, text);
}

TEST(Value, Integers) {
  EXPECT_EQ(Value(kInt8, "9223372036854775807").integer(), INT64_MAX);
  EXPECT_EQ(Value(kInt8, "-9223372036854775808").integer(), INT64_MIN);
  EXPECT_EQ(Value(kInt2, "-32768").integer(), -32768);
  EXPECT_EQ(Value(kInt4, "0").kind_case(), v1::Value::kInteger);
  EXPECT_EQ(Value(kOid, "4294967295").integer(), 4294967295);
  EXPECT_EQ(Value(kXid, "4294967295").integer(), 4294967295);
  EXPECT_EQ(Value(kXid8, "18446744073709551615").unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(Value(kIntDomain, "7").integer(), 7);
  for (const char* text :
       {"", " 1", "1 ", "1.0", "0x1", "+1", "9223372036854775808", "--1", "1e3"}) {
    ExpectRefused(kInt8, text);
  }
  ExpectRefused(kXid8, "-1");
  ExpectRefused(kXid8, "18446744073709551616");
}

// All bits: the shortest text that reads back as the same number.
TEST(Value, Floats) {
  const auto bits = [](double number) { return std::bit_cast<uint64_t>(number); };
  EXPECT_EQ(bits(Value(kFloat8, "-0").float64()), bits(-0.0));
  EXPECT_EQ(bits(Value(kFloat8, "0.1").float64()), bits(0.1));
  EXPECT_EQ(bits(Value(kFloat8, "5e-324").float64()), 1u);
  EXPECT_EQ(bits(Value(kFloat8, "2.225073858507201e-308").float64()), 0x000F'FFFF'FFFF'FFFFu);
  EXPECT_EQ(Value(kFloat8, "1.7976931348623157e+308").float64(),
            std::numeric_limits<double>::max());
  EXPECT_EQ(Value(kFloat8, "1e+20").float64(), 1e20);
  EXPECT_TRUE(std::isnan(Value(kFloat8, "NaN").float64()));
  EXPECT_EQ(Value(kFloat8, "Infinity").float64(), HUGE_VAL);
  EXPECT_EQ(Value(kFloat8, "-Infinity").float64(), -HUGE_VAL);
  EXPECT_EQ(Value(kFloat4, "1e-45").float32(), std::bit_cast<float>(1));
  EXPECT_EQ(Value(kFloat4, "0.1").float32(), 0.1f);
  EXPECT_EQ(Value(kFloat4, "-Infinity").float32(), -HUGE_VALF);
  EXPECT_TRUE(std::signbit(Value(kFloat4, "-0").float32()));
  for (const char* text :
       {"", "inf", "nan", "nan(1)", "-NaN", "infinity", "1e400", "1,5", "0x1p3", "1.", " 1"}) {
    if (std::string_view(text) == "1.") continue;  // reads as 1; no server prints it
    ExpectRefused(kFloat8, text);
  }
}

// proves B027
TEST(Value, DecimalsKeepEveryDigit) {
  for (const char* text :
       {"NaN", "Infinity", "-Infinity", "0.00000000000000000001",
        "123456789012345678901234567890.1234500", "1.50", "0.00", "-0.10", "7"}) {
    EXPECT_EQ(Value(kNumeric, text).decimal(), text);
  }
  const std::string long_number(1000, '9');
  EXPECT_EQ(Value(kNumeric, long_number).decimal(), long_number);
  for (const char* text : {"", "-", ".", "1.2.3", "1e5", "1,5", "nan", "+1", "inf", "--1"}) {
    ExpectRefused(kNumeric, text);
  }
}

TEST(Value, TextIsKeptByteForByte) {
  EXPECT_EQ(Value(kText, "").kind_case(), v1::Value::kText);
  EXPECT_EQ(Value(kText, "NULL").text(), "NULL");
  EXPECT_EQ(Value(kBpchar, "ab ").text(), "ab ") << "padding is the source's";
  EXPECT_EQ(Value(kText, "é€𝄞").text(), "é€𝄞");
  EXPECT_EQ(Value(kUuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").text(),
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
  EXPECT_EQ(Value(99999, "whatever an extension prints").text(), "whatever an extension prints");
  // No client could parse the message.
  ExpectRefused(kText, "\xFF");
  ExpectRefused(kJson, "\"\xC3\"");
}

TEST(Value, Binary) {
  EXPECT_EQ(Value(kBytea, "\\x").kind_case(), v1::Value::kBinary);
  EXPECT_EQ(Value(kBytea, "\\x00ff10ab").binary(), std::string("\x00\xFF\x10\xAB", 4));
  for (const char* text : {"", "\\", "00ff", "\\x0", "\\x0g", "\\xFF", "abc", "\\000"}) {
    ExpectRefused(kBytea, text);
  }
}

// proves B035
TEST(Value, JsonIsKeptByteForByte) {
  for (const char* text : {R"({"b":1,"a":1.0,"a":12345678901234567890})", R"( {"k" : null} )",
                           R"({"a": 12345678901234567890, "b": 1})", R"("\u00e9\"")", "1e400"}) {
    EXPECT_EQ(Value(kJson, text).json(), text);
    EXPECT_EQ(Value(kJsonb, text).json(), text);
  }
}

// proves B025, B039
TEST(Value, DatesAndTimes) {
  EXPECT_EQ(Value(kDate, "2021-06-01").temporal(), "2021-06-01");
  EXPECT_EQ(Value(kDate, "0044-03-15 BC").temporal(), "0044-03-15 BC");
  EXPECT_EQ(Value(kDate, "5874897-12-31").temporal(), "5874897-12-31");
  EXPECT_EQ(Value(kTime, "24:00:00").temporal(), "24:00:00");
  EXPECT_EQ(Value(kTime, "04:05:06.789").temporal(), "04:05:06.789");
  EXPECT_EQ(Value(kTimetz, "04:05:06.789+00").temporal(), "04:05:06.789Z");
  EXPECT_EQ(Value(kTimetz, "04:05:06-08").temporal(), "04:05:06-08:00");
  EXPECT_EQ(Value(kTimetz, "04:05:06+05:30").temporal(), "04:05:06+05:30");
  EXPECT_EQ(Value(kTimetz, "04:05:06+15:59:59").temporal(), "04:05:06+15:59:59");
  EXPECT_EQ(Value(kTimestamp, "2021-03-28 02:30:00").temporal(), "2021-03-28T02:30:00");
  EXPECT_EQ(Value(kTimestamp, "4713-01-01 00:00:00 BC").temporal(), "4713-01-01T00:00:00 BC");
  EXPECT_EQ(Value(kTimestamptz, "2021-06-01 06:30:00.000001+00").temporal(),
            "2021-06-01T06:30:00.000001Z");
  EXPECT_EQ(Value(kTimestamptz, "294276-12-31 23:59:59.999999+00").temporal(),
            "294276-12-31T23:59:59.999999Z");
  EXPECT_EQ(Value(kTimestamptz, "0044-03-15 00:00:00+00 BC").temporal(), "0044-03-15T00:00:00Z BC");
  for (const uint32_t type : {kDate, kTimestamp, kTimestamptz, kInterval}) {
    EXPECT_EQ(Value(type, "infinity").temporal(), "infinity");
    EXPECT_EQ(Value(type, "-infinity").temporal(), "-infinity");
    ExpectRefused(type, "");
    ExpectRefused(type, "Infinity");
  }
}

// What a session prints whose settings are not pinned.
TEST(Value, DatesAndTimesOfAnotherStyleAreRefused) {
  for (const char* text : {"28.03.2021", "03/28/2021", "2021-3-28", "2021-06-01 AD", "21-06-01",
                           "2021-06-01 00:00:00", "12345678-01-01"}) {
    ExpectRefused(kDate, text);
  }
  for (const char* text :
       {"2021-06-01 06:30:00+02", "2021-06-01 06:30:00", "2021-06-01T06:30:00+00",
        "Tue Jun 01 06:30:00 2021 UTC", "2021-06-01 06:30:00+00:00", "2021-06-01 06:30:00.+00",
        "2021-06-01 06:30:00.1234567+00", "2021-06-01 06:30:00+00BC", "2021-06-01 06:30+00"}) {
    ExpectRefused(kTimestamptz, text);
  }
  for (const char* text : {"2021-06-01 06:30:00+00", "2021-06-01", "01.06.2021 06:30:00"}) {
    ExpectRefused(kTimestamp, text);
  }
  for (const char* text : {"4:05:06", "04:05", "04:05:06+00", "infinity"})
    ExpectRefused(kTime, text);
  for (const char* text : {"04:05:06", "04:05:06+1", "04:05:06+01:0", "04:05:06+01:00:00:00"}) {
    ExpectRefused(kTimetz, text);
  }
  for (const char* text : {"1 year 2 mons", "@ 1 year", "1-2", "P", "PX", "04:05:06"}) {
    ExpectRefused(kInterval, text);
  }
}

// proves B029: months, days and microseconds stay apart, each with its sign.
TEST(Value, Intervals) {
  for (const char* text : {"P1Y2M-3DT4H5M6.789S", "P-1M1DT-0.000001S", "P178000000Y", "PT0S"}) {
    EXPECT_EQ(Value(kInterval, text).temporal(), text);
  }
}

TEST(Value, Arrays) {
  EXPECT_EQ(Shown(Value(kInt4s, "{}")), "list { }");
  EXPECT_EQ(
      Shown(Value(kInt4s, "{1,NULL,-3}")),
      "list { items { integer: 1 } items { null: NULL_VALUE_UNSPECIFIED } items { integer: -3 } }");
  EXPECT_EQ(Shown(Value(kInt4s, "{{1,2},{3,4}}")),
            "list { items { list { items { integer: 1 } items { integer: 2 } } } "
            "items { list { items { integer: 3 } items { integer: 4 } } } }");
  EXPECT_EQ(
      Shown(Value(kInt4s, "[2:4]={1,2,3}")),
      "list { items { integer: 1 } items { integer: 2 } items { integer: 3 } lower_bounds: 2 }");
  EXPECT_EQ(Shown(Value(kInt4s, "[-1:-1][0:1]={{1,2}}")),
            "list { items { list { items { integer: 1 } items { integer: 2 } } } "
            "lower_bounds: -1 lower_bounds: 0 }");
  EXPECT_EQ(Shown(Value(kInt4s, "[1:1]={7}")), "list { items { integer: 7 } }");
  EXPECT_EQ(Shown(Value(kInt4s, "{{{{{{7}}}}}}")),
            "list { items { list { items { list { items { list { items { list { items { list { "
            "items { integer: 7 } } } } } } } } } } } }");
}

TEST(Value, ArraysUnquoteTheirElements) {
  const v1::Value value =
      Value(kTexts, R"({plain,"","NULL",NULL,null,"a,b","q\"q","b\\b","{x}"," s ","é",a\\b})");
  const std::vector<std::string> expected = {"plain", "",     "NULL", "",    "null", "a,b",
                                             "q\"q",  "b\\b", "{x}",  " s ", "é",    "a\\b"};
  ASSERT_EQ(value.list().items_size(), static_cast<int>(expected.size()));
  for (int i = 0; i < value.list().items_size(); ++i) {
    EXPECT_EQ(value.list().items(i).text(), expected[i]) << i;
    EXPECT_EQ(value.list().items(i).has_null(), i == 3) << i;
  }
}

TEST(Value, ArraysOfEveryKindOfElement) {
  EXPECT_EQ(Value(kMoods, "{sad,happy}").list().items(1).text(), "happy");
  EXPECT_EQ(Value(kTextsDomain, R"({a,"b c"})").list().items(1).text(), "b c");
  EXPECT_EQ(Value(kByteas, R"({"\\x00ff",NULL})").list().items(0).binary(),
            std::string("\x00\xFF", 2));
  EXPECT_EQ(
      Value(kTimestamptzs, R"({"2021-06-01 06:30:00+00",infinity})").list().items(0).temporal(),
      "2021-06-01T06:30:00Z");
  EXPECT_EQ(Value(kJsonbs, R"({"{\"a\": \"\\\"\"}"})").list().items(0).json(), R"({"a": "\""})");
  // proves B031: box separates by ';'.
  const v1::Value boxes = Value(kBoxes, "{(1,1),(0,0);(3,3),(2,2)}");
  ASSERT_EQ(boxes.list().items_size(), 2);
  EXPECT_EQ(boxes.list().items(0).text(), "(1,1),(0,0)");
  EXPECT_EQ(boxes.list().items(1).text(), "(3,3),(2,2)");
  const v1::Value lists = Value(kTextsDomains, R"({"{a,\"b c\"}","{}"})");
  EXPECT_EQ(lists.list().items(0).list().items(1).text(), "b c");
  EXPECT_EQ(lists.list().items(1).list().items_size(), 0);
}

TEST(Value, MalformedArraysAreRefused) {
  for (const char* text : {"",
                           "{",
                           "}",
                           "1",
                           "{1",
                           "{1,",
                           "{1,}",
                           "{,1}",
                           "{,}",
                           "{1}}",
                           "{1}x",
                           "{{}}",
                           "{{1}",
                           "{1,{2}}",
                           "{{1},2}",
                           "{{1},{2,3}}",
                           "{{1,2},{3}}",
                           "{{1},{{2}}}",
                           "[1:2]={1}",
                           "[1:2]={1,2,3}",
                           "[1:1][1:1]={1}",
                           "[1:1]={{1}}",
                           "[2:1]={}",
                           "[1:2]",
                           "[1:2]{1,2}",
                           "[1]={1}",
                           "[a:b]={1}",
                           "[1:99999999999]={1}",
                           "[:]={1}",
                           "[1:1]={}",
                           "{1 2}",
                           "{\"1\"2}",
                           "{1\"2\"}",
                           "{ }",
                           "{x}",
                           "{\"1}",
                           "{1\\",
                           "{\"1\\",
                           "{{{{{{{7}}}}}}}",
                           "[1:1][1:1][1:1][1:1][1:1][1:1][1:1]={1}",
                           " {1}"}) {
    ExpectRefused(kInt4s, text);
  }
  ExpectRefused(kInt4s, std::string(1'000'000, '{'));
  ExpectRefused(kTexts, std::string("{") + std::string(1'000'000, '\\'));
}

TEST(Value, Composites) {
  EXPECT_EQ(Shown(Value(kPair, R"x((1,"a,b"))x")),
            R"x(composite { fields { integer: 1 } fields { text: "a,b" } })x");
  EXPECT_EQ(Shown(Value(kPair, "(,)")),
            "composite { fields { null: NULL_VALUE_UNSPECIFIED } fields { null: "
            "NULL_VALUE_UNSPECIFIED } }");
  EXPECT_EQ(Shown(Value(kPair, R"x((-5,""))x")),
            R"x(composite { fields { integer: -5 } fields { text: "" } })x");

  EXPECT_EQ(Value(kPair, R"x((1,"q""q\\b()"))x").composite().fields(1).text(), "q\"q\\b()");
  EXPECT_EQ(Value(kPair, R"x((1,a"b""c"d\,))x").composite().fields(1).text(), "ab\"cd,");
  EXPECT_EQ(Value(kEmptyRow, "()").composite().fields_size(), 0);
  EXPECT_TRUE(Value(kOneField, "()").composite().fields(0).has_null());
}

TEST(Value, CompositesNest) {
  // As record_out() and array_out() print it: each level doubles the quotes and backslashes.
  const v1::Value pairs = Value(kPairs, R"x({"(1,\"a,b\")","(2,)",NULL})x");
  ASSERT_EQ(pairs.list().items_size(), 3);
  EXPECT_EQ(pairs.list().items(0).composite().fields(1).text(), "a,b");
  EXPECT_TRUE(pairs.list().items(1).composite().fields(1).has_null());
  EXPECT_TRUE(pairs.list().items(2).has_null());
  const v1::Value nested =
      Value(kNested, R"x(("{""(1,\\""a,b\\"")""}","{sad,happy}","(3,""x""""y"")"))x");
  EXPECT_EQ(nested.composite().fields(0).list().items(0).composite().fields(1).text(), "a,b");
  EXPECT_EQ(nested.composite().fields(1).list().items(1).text(), "happy");
  EXPECT_EQ(nested.composite().fields(2).composite().fields(1).text(), "x\"y");
}

TEST(Value, MalformedCompositesAreRefused) {
  for (const char* text : {"", "(", ")", "1,2", "(1", "(1,2", "(1)", "(1,2,3)", "(1,2)x", "(1,\"2)",
                           "(1,2\\", "(x,2)", "((1),2)", " (1,2)", "()", "(1,2))", "(1,\"2\"\")"}) {
    ExpectRefused(kPair, text);
  }
  ExpectRefused(kEmptyRow, "(1)");
  ExpectRefused(kEmptyRow, "(,)");
  ExpectRefused(kPair, std::string(1'000'000, '('));
}

TEST(Value, ErrorsNameTheTypeAndShowTheBeginning) {
  const absl::Status status = Encoded(kInt4s, "{1," + std::string(500, 'x') + "}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("integer"));
  EXPECT_LT(status.message().size(), 300u);
  EXPECT_THAT(std::string(Encoded(kText,
                                  "\xFF"
                                  "bad")
                              .status()
                              .message()),
              HasSubstr("\\xff"));
}

// Whatever bytes come: an error or a Value that protobuf reads, never anything else.
TEST(Value, AnyTextIsReadOrRefused) {
  std::mt19937 random(20240229);
  const std::string alphabet = "{}(),;\"\\NUL[]:=012345- .+tfxTZPYae\xC3\xA9";
  const std::vector<uint32_t> types = {kInt4s,        kTexts,   kBoxes,  kPair,
                                       kPairs,        kNested,  kByteas, kTimestamptzs,
                                       kTextsDomains, kNumeric, kFloat8, kTimetz};
  int read = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string text;
    const size_t length = random() % 24;
    while (text.size() < length) text.push_back(alphabet[random() % alphabet.size()]);
    if (i % 2 == 0) text = (i % 4 == 0 ? "{" + text + "}" : "(" + text + ")");
    read += Encoded(types[random() % types.size()], text).ok() ? 1 : 0;
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace tidemark::capture::postgres
