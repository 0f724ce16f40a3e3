#include "capture/postgres/copy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemark::capture::postgres {
namespace {

using Columns = std::vector<std::optional<std::string_view>>;

TEST(CopyText, SplitsAndUnescapes) {
  std::string scratch;
  Columns columns;
  ASSERT_TRUE(
      SplitCopyLine("1\t\\N\t\tplain\ta\\tb\\nc\\\\N\t\\\\N\t\\b\\f\\r\\v\\x", &scratch, &columns));
  const Columns expected = {"1", std::nullopt, "", "plain", "a\tb\nc\\N", "\\N", "\b\f\r\vx"};
  EXPECT_EQ(columns, expected);
}

TEST(CopyText, ReusesItsBuffers) {
  std::string scratch;
  Columns columns;
  for (int size = 1000; size >= 0; size -= 100) {
    const std::string text(size, 'y');
    const std::string line = "\\\\" + text + "\t\\\\" + text;
    ASSERT_TRUE(SplitCopyLine(line, &scratch, &columns));
    ASSERT_EQ(columns.size(), 2u);
    EXPECT_EQ(*columns[0], "\\" + text);
    EXPECT_EQ(*columns[1], "\\" + text);
  }
}

TEST(CopyText, RefusesAnEscapeOfNothing) {
  std::string scratch;
  Columns columns;
  EXPECT_FALSE(SplitCopyLine("a\\", &scratch, &columns));
  EXPECT_FALSE(SplitCopyLine("a\\\tb", &scratch, &columns));
}

TEST(CopyText, EmptyLineIsOneEmptyColumn) {
  std::string scratch;
  Columns columns;
  ASSERT_TRUE(SplitCopyLine("", &scratch, &columns));
  EXPECT_EQ(columns, Columns{""});
}

}  // namespace
}  // namespace tidemark::capture::postgres
