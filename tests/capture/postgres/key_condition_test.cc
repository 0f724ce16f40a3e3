#include "capture/postgres/key_condition.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

Relation RelationOf(std::vector<DescribedColumn> key) {
  Relation relation;
  for (size_t i = 0; i < key.size(); ++i) relation.shape.key_columns.push_back(i);
  relation.description.columns = std::move(key);
  return relation;
}

DescribedColumn Column(const std::string& name, const std::string& type) {
  return {.name = name, .sql_type = type};
}

DescribedColumn Citext(const std::string& name) {
  return {.name = name,
          .sql_type = "ext.citext",
          .operators = {"OPERATOR(ext.=)", "OPERATOR(ext.>=)", "OPERATOR(ext.>)"}};
}

TEST(KeyConditionTest, ComparesAsTheIndexDoes) {
  const Relation one = RelationOf({Column("id", "integer")});
  EXPECT_EQ(BehindKey({"7"}, one), "\"id\" > '7'::integer");
  EXPECT_EQ(WithKeys(std::vector<KeyTexts>{{"7"}, {"8"}}, one),
            "\"id\" IN ('7'::integer, '8'::integer)");
  const Relation two = RelationOf({Column("a", "text"), Column("B", "integer")});
  EXPECT_EQ(BehindKey({"it's", "7"}, two), "(\"a\", \"B\") > ('it''s'::text, '7'::integer)");
  EXPECT_EQ(WithKeys(std::vector<KeyTexts>{{"x", "7"}, {"y", "8"}}, two),
            "(\"a\", \"B\") IN (VALUES ('x'::text, '7'::integer), ('y'::text, '8'::integer))");
}

TEST(KeyConditionTest, ATypeWithAnOrderOfItsOwnIsComparedByThat) {
  const Relation one = RelationOf({Citext("k")});
  EXPECT_EQ(BehindKey({"x"}, one), "\"k\" OPERATOR(ext.>) 'x'::ext.citext");
  EXPECT_EQ(WithKeys(std::vector<KeyTexts>{{"x"}, {"y"}}, one),
            "\"k\" OPERATOR(ext.=) ANY (ARRAY['x'::ext.citext, 'y'::ext.citext])");
  const Relation two = RelationOf({Column("n", "integer"), Citext("k")});
  EXPECT_EQ(BehindKey({"7", "x"}, two),
            "\"n\" >= '7'::integer AND (\"n\" > '7'::integer OR (\"n\" = '7'::integer AND "
            "\"k\" OPERATOR(ext.>) 'x'::ext.citext))");
  EXPECT_EQ(WithKeys(std::vector<KeyTexts>{{"7", "x"}}, two),
            "(\"n\" = '7'::integer AND \"k\" OPERATOR(ext.=) 'x'::ext.citext)");
}

}  // namespace
}  // namespace tidemark::capture::postgres
