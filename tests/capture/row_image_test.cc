#include "capture/row_image.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capture/value_writer.h"
#include "proto/schema_id.h"

namespace tidemark::capture {
namespace {

v1::TableSchema Schema(const std::vector<std::string>& columns) {
  v1::TableSchema schema;
  for (const std::string& name : columns) schema.add_columns()->set_name(name);
  schema.set_schema_id(SchemaId(schema));
  return schema;
}

std::string Text(std::string_view text) {
  std::string image;
  AppendText(ValueTag::kAfter, text, &image);
  return image;
}
std::string Null() {
  std::string image;
  AppendNull(ValueTag::kAfter, &image);
  return image;
}
std::string Absent() {
  std::string image;
  AppendAbsent(ValueTag::kAfter, &image);
  return image;
}
std::string Integer(int64_t number) {
  std::string image;
  AppendInteger(ValueTag::kAfter, number, &image);
  return image;
}

std::vector<ColumnDifference> Differing(const v1::TableSchema& known_schema,
                                        const std::string& known,
                                        const v1::TableSchema& read_schema,
                                        const std::string& read) {
  const auto differing = ColumnsThatDiffer({&known_schema, known}, {&read_schema, read});
  EXPECT_TRUE(differing.ok()) << differing.status();
  return differing.value_or(std::vector<ColumnDifference>{{"error"}});
}

bool Same(const v1::TableSchema& known_schema, const std::string& known,
          const v1::TableSchema& read_schema, const std::string& read) {
  return Differing(known_schema, known, read_schema, read).empty();
}

TEST(RowImageTest, TakesValuesOfAnotherImage) {
  const std::string large(1000, 'x');
  const std::vector<uint32_t> columns = {1, 2};
  const auto together = WithValuesOf(Integer(7) + Absent() + Text("a") + Null(),
                                     Integer(8) + Text(large) + Null() + Text("b"), columns);
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(*together, Integer(7) + Text(large) + Null() + Null());
  EXPECT_EQ(*WithValuesOf(Integer(7) + Absent(), Integer(8) + Text("a"), {}),
            Integer(7) + Absent());
  EXPECT_FALSE(WithValuesOf(Integer(7), Integer(8) + Null() + Null(), columns).ok());
  EXPECT_FALSE(WithValuesOf("x", Integer(8), columns).ok());
}

TEST(RowImageTest, TakesAnImageApart) {
  const std::string large(1000, 'x');
  const std::string image = Integer(7) + Null() + Absent() + Text(large);
  const auto values = ValuesOf(image);
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_EQ(values->size(), 4u);
  v1::Value value;
  ASSERT_TRUE(value.ParseFromString(std::string((*values)[3])));
  EXPECT_EQ(value.text(), large);
  EXPECT_EQ((*values)[2], "");
  EXPECT_FALSE(ValuesOf(image.substr(0, image.size() - 1)).ok());
}

TEST(RowImageTest, ComparesByNameAcrossSchemas) {  // proves B019
  const v1::TableSchema before = Schema({"id", "w", "gone"});
  const v1::TableSchema now = Schema({"id", "added", "w"});
  const std::string known = Integer(1) + Integer(7) + Text("x");
  EXPECT_TRUE(Same(before, known, now, Integer(1) + Null() + Integer(7)));
  EXPECT_FALSE(Same(before, known, now, Integer(1) + Text("d") + Integer(7))) << "a default";
  EXPECT_FALSE(Same(before, known, now, Integer(1) + Null() + Text("7"))) << "another type";
  EXPECT_FALSE(Same(before, known, now, Integer(1) + Null() + Null())) << "dropped, added again";
}

TEST(RowImageTest, WhatNobodyToldIsNeverTheSame) {
  const v1::TableSchema schema = Schema({"id", "w"});
  EXPECT_TRUE(Same(schema, Integer(1) + Null(), schema, Integer(1) + Null()));
  EXPECT_FALSE(Same(schema, Integer(1) + Absent(), schema, Integer(1) + Null()));
}

TEST(RowImageTest, NamesTheColumnsThatDiffer) {  // proves A52
  const v1::TableSchema before = Schema({"id", "w", "x", "gone"});
  const v1::TableSchema now = Schema({"x", "id", "added", "w"});
  const std::string known = Integer(1) + Text("a") + Absent() + Text("g");
  const std::vector<ColumnDifference> wanted = {{"x", true}, {"added", false}, {"w", false}};
  EXPECT_EQ(Differing(before, known, now, Null() + Integer(1) + Integer(5) + Text("b")), wanted);
  const std::vector<ColumnDifference> absent = {{"x", true}};
  EXPECT_EQ(Differing(before, known, before, Integer(1) + Text("a") + Text("x") + Text("g")),
            absent);
}

TEST(RowImageTest, TellsAKeyInTheOrderOfTheKey) {
  v1::TableSchema schema = Schema({"id", "w", "region"});
  schema.add_key_columns(2);
  schema.add_key_columns(0);
  const std::string wanted = R"({"region":"eu","id":7})";
  EXPECT_EQ(KeyJson(schema, Integer(7) + Text("x") + Text("eu"), ImageColumns::kAll), wanted);
  EXPECT_EQ(KeyJson(schema, Text("eu") + Integer(7), ImageColumns::kKey), wanted);
  EXPECT_EQ(KeyJson(schema, Text("eu"), ImageColumns::kKey), R"({"region":"eu"})");
  EXPECT_EQ(KeyJson(schema, "no image", ImageColumns::kKey), "{}");
}

TEST(RowImageTest, WhatIsNoImageIsNeverTheSame) {
  const v1::TableSchema schema = Schema({"id"});
  const std::string row = Integer(300);
  EXPECT_FALSE(ColumnsThatDiffer({&schema, row.substr(0, 2)}, {&schema, row}).ok());
}

}  // namespace
}  // namespace tidemark::capture
