// Which column of the row before a column is, across changes of the schema.
#include "store/absent_columns.h"

#include <gmock/gmock.h>

#include "tests/store/sample_log.h"

namespace tidemark::store {
namespace {

using ::testing::ElementsAre;

// The columns (id, `before`…) with values named after them, all but the id then asked for under
// (id, `after`…).
std::vector<std::string> Fill(const std::vector<std::string>& before,
                              const std::vector<std::string>& after,
                              const std::string& retyped = "") {
  const v1::TableSchema old_schema = SampleSchema("t", before);
  v1::TableSchema schema = SampleSchema("t", after);
  for (v1::Column& column : *schema.mutable_columns()) {
    if (column.name() == retyped) column.set_source_type("character varying");
  }
  std::vector<std::string> texts = {"1"};
  texts.insert(texts.end(), before.begin(), before.end());
  const std::vector<std::string_view> old_values(texts.begin(), texts.end());
  std::vector<std::string_view> values(after.size() + 1);
  values[0] = "id of the change";
  FillAbsent(old_schema, old_values, schema, &values);
  EXPECT_EQ(values[0], "id of the change") << "what the change says is not touched";
  std::vector<std::string> filled;
  for (size_t i = 1; i < values.size(); ++i) {
    filled.push_back(values[i].empty() ? "-" : std::string(values[i]));
  }
  return filled;
}

TEST(FillAbsentTest, TakesColumnsByName) {
  EXPECT_THAT(Fill({"a", "b"}, {"a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(Fill({"a", "b"}, {"a", "b", "new"}), ElementsAre("a", "b", "-"));
  EXPECT_THAT(Fill({"gone", "a", "b"}, {"a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(Fill({"gone", "a", "b"}, {"a", "b", "new", "new too"}),
              ElementsAre("a", "b", "-", "-"));
}

TEST(FillAbsentTest, ARenamedColumnIsKnownByItsPlace) {
  EXPECT_THAT(Fill({"a", "b"}, {"a", "renamed"}), ElementsAre("a", "b"));
  EXPECT_THAT(Fill({"doc", "doc_new"}, {"doc_old", "doc"}), ElementsAre("doc", "doc_new"))
      << "a column took over the name of another";
}

TEST(FillAbsentTest, AColumnThatWasDroppedAndAddedAgainMovesTheOthers) {
  EXPECT_EQ(Fill({"a", "b"}, {"b", "a"})[0], "b");
  EXPECT_EQ(Fill({"a", "b", "c"}, {"b", "c", "new"})[0], "b");
  EXPECT_EQ(Fill({"a", "b", "c"}, {"b", "c", "new"})[1], "c");
}

TEST(FillAbsentTest, AColumnNeverMovesBack) {
  EXPECT_THAT(Fill({"a", "b"}, {"new", "a", "more"}), ElementsAre("-", "-", "-"));
}

TEST(FillAbsentTest, AnotherTypeIsAnotherValue) {
  EXPECT_THAT(Fill({"a", "b"}, {"a", "b"}, "b"), ElementsAre("a", "-"));
}

TEST(HasAbsentTest, AnEmptyValueIsAbsent) {
  EXPECT_TRUE(HasAbsent({"x", ""}));
  EXPECT_FALSE(HasAbsent({"x", "y"}));
  EXPECT_FALSE(HasAbsent({}));
}

}  // namespace
}  // namespace tidemark::store
