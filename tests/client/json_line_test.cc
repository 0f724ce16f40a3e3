#include "client/json_line.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>

#include "client/text_line.h"
#include "proto/value_json.h"
#include "tests/testing/written_records.h"

namespace tidemark::client {
namespace {

using testing::AccountChange;
using testing::AccountSchema;

std::string Json(const std::string& value_text) {
  v1::Value value;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(value_text, &value)) << value_text;
  std::string json;
  AppendJsonValue(value, &json);
  return json;
}

std::string Json(double number) {
  v1::Value value;
  value.set_float64(number);
  std::string json;
  AppendJsonValue(value, &json);
  return json;
}

TEST(JsonLineTest, PutsNoNumberThroughADouble) {
  EXPECT_EQ(Json("integer: -9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(Json("integer: 9007199254740993"), "9007199254740993");
  EXPECT_EQ(Json("unsigned_integer: 18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Json("decimal: '12345678901234567890.1200'"), "\"12345678901234567890.1200\"");
  EXPECT_EQ(Json("decimal: 'NaN'"), "\"NaN\"");
}

TEST(JsonLineTest, PrintsFloatsSoThatTheyReadBackEqual) {
  EXPECT_EQ(Json("float32: 0.1"), "0.1");
  EXPECT_EQ(Json(0.1), "0.1");
  EXPECT_EQ(Json(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(Json(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(Json(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()), "\"NaN\"");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()), "\"Infinity\"");
  EXPECT_EQ(Json(-std::numeric_limits<double>::infinity()), "\"-Infinity\"");
}

TEST(JsonLineTest, PrintsEveryForm) {
  EXPECT_EQ(Json("null: NULL_VALUE_UNSPECIFIED"), "null");
  EXPECT_EQ(Json("boolean: true"), "true");
  EXPECT_EQ(Json("text: 'a\"b\\\\c\\n\\t\\001'"), R"("a\"b\\c\n\t\u0001")");
  EXPECT_EQ(Json("text: 'Zo\\303\\253'"), "\"Zo\xC3\xAB\"");
  EXPECT_EQ(Json("binary: '\\000\\377'"), "\"AP8=\"");
  EXPECT_EQ(Json("json: '{\"a\": 1.0}'"), R"("{\"a\": 1.0}")");
  EXPECT_EQ(Json("temporal: '2026-03-01T12:00:00Z'"), "\"2026-03-01T12:00:00Z\"");
  EXPECT_EQ(Json("list { items { integer: 1 } items { null: NULL_VALUE_UNSPECIFIED } }"),
            "[1,null]");
  EXPECT_EQ(Json("list { items { list { items { integer: 1 } } } }"), "[[1]]");
  EXPECT_EQ(Json("list { items { integer: 1 } lower_bounds: 0 }"),
            R"({"lower_bounds":[0],"items":[1]})");
  EXPECT_EQ(Json("composite { fields { text: 'x' } fields { decimal: '1' } }"), R"(["x","1"])");
}

TEST(JsonLineTest, PutsColumnsFlatBesideTheReservedMembers) {
  const v1::TableSchema schema = AccountSchema();
  v1::Change change = AccountChange(v1::OP_UPDATE, 0, 7, "Ann");
  *change.add_before() = testing::Integer(7);
  *change.add_before() = testing::Text("Eve");
  EXPECT_EQ(JsonLine(ChangeView(schema, "0A", 3, change), "CURSOR"),
            R"({"__op":"update","__pos":"0A","__seq":3,"__table":"public.account","id":7,)"
            R"("owner":"Ann","__before":{"id":7,"owner":"Eve"},"__cursor":"CURSOR"})");
  change = AccountChange(v1::OP_DELETE, 0, 7);
  change.set_key_change(true);
  EXPECT_EQ(JsonLine(ChangeView(schema, "0A", 3, change)),
            R"({"__op":"delete","__pos":"0A","__seq":3,"__table":"public.account",)"
            R"("__key_change":true,"id":7})");
  change = AccountChange(v1::OP_TRUNCATE, 0, 0);
  EXPECT_EQ(JsonLine(ChangeView(schema, "0A", 3, change)),
            R"({"__op":"truncate","__pos":"0A","__seq":3,"__table":"public.account"})");
}

TEST(JsonLineTest, TellsAbsentFromNullAndKeepsReservedNamesApart) {
  v1::TableSchema schema;
  schema.set_schema_name("S");
  schema.set_table_name("t");
  for (const char* name : {"__op", "_x", "absent", "nothing"}) schema.add_columns()->set_name(name);
  v1::Change change;
  change.set_op(v1::OP_INSERT);
  *change.add_after() = testing::Text("not an op");
  *change.add_after() = testing::Integer(1);
  change.add_after();
  change.add_after()->set_null(v1::NULL_VALUE_UNSPECIFIED);
  EXPECT_EQ(JsonLine(ChangeView(schema, "0A", 0, change)),
            R"({"__op":"insert","__pos":"0A","__seq":0,"__table":"\"S\".t","___op":"not an op",)"
            R"("_x":1,"nothing":null})");
}

TEST(TextLineTest, PrintsAChangeForPeopleAndCutsLongValues) {
  const v1::TableSchema schema = AccountSchema();
  EXPECT_EQ(TextLine(ChangeView(schema, "0A", 3, AccountChange(v1::OP_INSERT, 0, 7, "Ann"))),
            "0A 3 insert public.account  id=7 owner='Ann'");
  EXPECT_EQ(TextLine(ChangeView(schema, "0A", 3, AccountChange(v1::OP_TRUNCATE, 0, 0))),
            "0A 3 truncate public.account");
  const std::string line = TextLine(
      ChangeView(schema, "0A", 3, AccountChange(v1::OP_INSERT, 0, 7, std::string(100'000, 'x'))));
  EXPECT_LT(line.size(), 300u);
  EXPECT_NE(line.find("…(100000 bytes)"), std::string::npos) << line;
}

}  // namespace
}  // namespace tidemark::client
