#include "capture/postgres/table_selection.h"

#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

std::vector<TablePattern> Patterns(const std::vector<std::string>& texts) {
  std::vector<TablePattern> patterns;
  for (const std::string& text : texts) patterns.push_back(*TablePattern::Parse(text));
  return patterns;
}

// Wanted of the tables a to e of schema public: "ace".
std::string Wanted(const TableSelection& selection) {
  std::string wanted;
  for (const std::string table : {"a", "b", "c", "d", "e"}) {
    if (selection.Wants("public", table)) wanted += table;
  }
  return wanted;
}

TEST(TableSelectionTest, WhatWasChosenStandsOverEveryList) {
  TableSelection selection(Patterns({"public.a", "public.b"}));
  EXPECT_EQ(Wanted(selection), "ab");
  selection.Choose("public", "b", v1::TABLE_CHOICE_REMOVED);
  selection.Choose("public", "e", v1::TABLE_CHOICE_ADDED);
  EXPECT_EQ(Wanted(selection), "ae");
  selection.Configure(Patterns({"public.b", "public.c"}));
  EXPECT_EQ(Wanted(selection), "ce");
  EXPECT_EQ(selection.configured().size(), 2u);
  EXPECT_EQ(selection.patterns().size(), 3u) << "and the one that was added";
  selection.ForgetChoices();
  EXPECT_EQ(Wanted(selection), "bc");
}

}  // namespace
}  // namespace tidemark::capture::postgres
