#include "proto/table_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark {
namespace {

using ::testing::HasSubstr;

TablePattern Parsed(std::string_view text) {
  absl::StatusOr<TablePattern> pattern = TablePattern::Parse(text);
  EXPECT_TRUE(pattern.ok()) << text << ": " << pattern.status();
  return pattern.ok() ? *pattern : TablePattern();
}

TEST(TableNameTest, QuotesWhatNeedsItAndParsesBack) {  // proves B084, R42
  EXPECT_EQ(TableNameText("public", "orders_2"), "public.orders_2");
  EXPECT_EQ(TableNameText("We.ird \"T\"", "x"), "\"We.ird \"\"T\"\"\".x");
  EXPECT_EQ(TableNameText("public", "a.b+c[1]"), "public.\"a.b+c[1]\"");
  EXPECT_EQ(TableNameText("a*", "b?"), "\"a*\".\"b?\"");
  for (const auto& [schema, table] : {std::pair{"We.ird \"T\"", "x"},
                                      {"public", "Col ,;\xc3\xa9"},
                                      {"a*", "?"},
                                      {"\"", "\"\""},
                                      {"public", "orders"}}) {
    const TablePattern pattern = Parsed(TableNameText(schema, table));
    EXPECT_TRUE(pattern.exact());
    EXPECT_EQ(pattern.schema(), schema);
    EXPECT_EQ(pattern.table(), table);
    EXPECT_TRUE(pattern.Matches(schema, table));
    EXPECT_EQ(pattern.Text(), TableNameText(schema, table));
  }
}

TEST(TableNameTest, GlobsMatchWholeNames) {
  EXPECT_TRUE(Parsed("public.*").Matches("public", "Any Thing"));
  EXPECT_FALSE(Parsed("public.*").Matches("public2", "t"));
  EXPECT_TRUE(Parsed("*.app_*_log").Matches("x", "app_a_log_b_log"));
  EXPECT_FALSE(Parsed("*.app_*_log").Matches("x", "app_log"));
  EXPECT_TRUE(Parsed("s.t?").Matches("s", "t1"));
  EXPECT_TRUE(Parsed("s.t?").Matches("s", "t\xc3\xa9"));
  EXPECT_FALSE(Parsed("s.t?").Matches("s", "t"));
  EXPECT_FALSE(Parsed("s.t?").Matches("s", "t12"));
  EXPECT_TRUE(Parsed("s.a*a*b").Matches("s", "aaaaab"));
  EXPECT_FALSE(Parsed("s.t*").exact());
  EXPECT_FALSE(Parsed("public.t").Matches("public", "T"));
  EXPECT_FALSE(Parsed("public.\"t*\"").Matches("public", "t1"));
  EXPECT_EQ(Parsed("\"A\".t*").Text(), "\"A\".t*");
}

TEST(TableNameTest, LongRunsOfStarsStayQuick) {
  std::string glob = "s.";
  for (int i = 0; i < 50; ++i) glob += "*a";
  std::string name(2000, 'a');
  name.push_back('b');
  EXPECT_FALSE(Parsed(glob).Matches("s", name));
}

TEST(TableNameTest, RefusesWithTheAcceptedForm) {
  for (const char* text :
       {"", ".", "t", "public.", ".t", "a.b.c", "Public.t", "public.T1", "public.\"t",
        "public.\"\"", "public.\"t\"x", "public .t", "a-b.t", "\"a\"*.t"}) {
    absl::StatusOr<TablePattern> pattern = TablePattern::Parse(text);
    ASSERT_FALSE(pattern.ok()) << text;
    EXPECT_THAT(std::string(pattern.status().message()), HasSubstr("write schema.table")) << text;
  }
}

}  // namespace
}  // namespace tidemark
