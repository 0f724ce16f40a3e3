// Who may know what in capture/changelog, and how its tests step through what they prove.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"

namespace tidemark::capture::changelog {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::filesystem::path> FilesOf(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(testing::SourceDir() / folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_FALSE(files.empty()) << folder;
  return files;
}

// proves P19: one file of the folder speaks SQL.
TEST(ChangelogShapeTest, OneFileWordsEveryStatement) {
  for (const auto& file : FilesOf("capture/changelog")) {
    if (file.stem() == "statements") continue;
    const std::string text = testing::FileText(file);
    for (const char* word : {"\"SELECT ", "\"DELETE ", "\"COPY ", "\"BEGIN", "\"FETCH ", "\"COMMIT",
                             "\"DECLARE ", "\"ROLLBACK"}) {
      EXPECT_THAT(text, Not(HasSubstr(word))) << file;
    }
  }
}

// proves P16: what the cursor is, and how it moves, knows neither a session nor a library of one;
// nor does the plain value that reads the text of a snapshot for it.
TEST(ChangelogShapeTest, TheArithmeticOfTheCursorKnowsNoConnection) {
  const std::string plain_value = "#include \"capture/postgres/xid_snapshot.h\"\n";
  for (const char* name :
       {"changelog/pull_scope.h", "changelog/pull_scope.cc", "changelog/settings.h",
        "changelog/settings.cc", "postgres/xid_snapshot.h", "postgres/xid_snapshot.cc"}) {
    std::string text = testing::FileText(testing::SourceDir() / "capture" / name);
    if (const size_t at = text.find(plain_value); at != std::string::npos) {
      text.erase(at, plain_value.size());
    }
    EXPECT_THAT(text, Not(HasSubstr("capture/postgres/"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("libpq"))) << name;
  }
}

// proves P13, P33: no pool, no pause, and a cluster for each test.
TEST(ChangelogShapeTest, TestsStepThroughSessionsOfTheirOwn) {
  for (const auto& file : FilesOf("tests/capture")) {
    if (!file.filename().string().starts_with("changelog_")) continue;
    const std::string text = testing::FileText(file);
    EXPECT_THAT(text, Not(HasSubstr("sleep"))) << file;
    if (file.extension() == ".cc") {
      EXPECT_THAT(text, HasSubstr("public ChangelogFixture")) << file;
    }
  }
  const auto fixture = testing::SourceDir() / "tests/capture/postgres_fixture.h";
  EXPECT_THAT(testing::FileText(fixture), HasSubstr("LivePostgres::Create(options_)"));
}

}  // namespace
}  // namespace tidemark::capture::changelog
