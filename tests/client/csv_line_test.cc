#include "client/csv_line.h"

#include <gtest/gtest.h>

#include <limits>

namespace tidemark::client {
namespace {

v1::TableSchema Schema(const std::vector<std::string>& names) {
  v1::TableSchema schema;
  schema.set_schema_name("public");
  schema.set_table_name("t");
  for (const std::string& name : names) schema.add_columns()->set_name(name);
  schema.add_key_columns(0);
  return schema;
}

TEST(CsvLineTest, TellsNullEmptyAndAbsentApart) {
  const v1::TableSchema schema = Schema({"id", "a", "b", "__c"});
  EXPECT_EQ(CsvHeader(schema), "__op,__pos,__seq,__table,__absent,id,a,b,___c");
  v1::Change change;
  change.set_op(v1::OP_UPDATE);
  change.add_after()->set_integer(9007199254740993);
  change.add_after()->set_null(v1::NULL_VALUE_UNSPECIFIED);
  change.add_after()->set_text("");
  change.add_after();
  EXPECT_EQ(CsvLine(ChangeView(schema, "00AB", 7, change)),
            "update,00AB,7,public.t,___c,9007199254740993,,\"\",");
}

TEST(CsvLineTest, QuotesWhatWouldBeTakenForSomethingElse) {
  for (const auto& [text, wanted] :
       std::vector<std::pair<std::string, std::string>>{{"plain", "plain"},
                                                        {"a,b", "\"a,b\""},
                                                        {"say \"x\"", "\"say \"\"x\"\"\""},
                                                        {"two\nlines", "\"two\nlines\""},
                                                        {" padded", "\" padded\""},
                                                        {"", "\"\""}}) {
    std::string out;
    AppendCsvText(text, &out);
    EXPECT_EQ(out, wanted);
  }
}

TEST(CsvLineTest, WritesEveryKindOfValue) {
  const v1::TableSchema schema = Schema({"a", "b", "c", "d", "e", "f", "g", "h"});
  v1::Change change;
  change.set_op(v1::OP_INSERT);
  change.add_after()->set_boolean(true);
  change.add_after()->set_float64(0.1);
  change.add_after()->set_decimal("1.50");
  change.add_after()->set_binary(std::string("\0\xFF", 2));
  change.add_after()->set_json(R"({"a":1})");
  change.add_after()->set_temporal("2026-03-01T12:00:00Z");
  change.add_after()->mutable_list()->add_items()->set_text("x");
  change.add_after()->set_unsigned_integer(18446744073709551615u);
  EXPECT_EQ(CsvLine(ChangeView(schema, "P", 0, change)),
            "insert,P,0,public.t,,true,0.1,1.50,AP8=,\"{\"\"a\"\":1}\",2026-03-01T12:00:00Z,"
            "\"[\"\"x\"\"]\",18446744073709551615");
}

TEST(CsvLineTest, FloatsThatAreNoNumbersHaveNoQuotes) {
  const v1::TableSchema schema = Schema({"a", "b", "c", "d"});
  v1::Change change;
  change.set_op(v1::OP_INSERT);
  change.add_after()->set_float64(std::numeric_limits<double>::quiet_NaN());
  change.add_after()->set_float64(-std::numeric_limits<double>::infinity());
  change.add_after()->set_float32(std::numeric_limits<float>::infinity());
  change.add_after()->set_float32(1.5f);
  EXPECT_EQ(CsvLine(ChangeView(schema, "P", 0, change)),
            "insert,P,0,public.t,,NaN,-Infinity,Infinity,1.5");
}

TEST(CsvLineTest, ADeleteHasItsKey) {
  const v1::TableSchema schema = Schema({"id", "a"});
  v1::Change change;
  change.set_op(v1::OP_DELETE);
  change.add_key()->set_integer(5);
  EXPECT_EQ(CsvLine(ChangeView(schema, "P", 1, change)), "delete,P,1,public.t,a,5,");
}

}  // namespace
}  // namespace tidemark::client
