// The tree keeps the rules of the design. Each line of a failure is file:line: rule: what to do.
#include "tests/tree/tree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/built_paths.h"
#include "tests/tree/checks.h"

namespace tidemark::tree {
namespace {

class TreeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { tree_ = new Tree(LoadTree(testing::SourceDir()).value()); }
  static void TearDownTestSuite() { delete tree_; }

  static std::string Text(const Violations& violations) {
    std::string text;
    for (const Violation& violation : violations) text += "\n" + violation.Text();
    return text;
  }

  static Tree* tree_;
};

Tree* TreeTest::tree_ = nullptr;

TEST_F(TreeTest, IsFound) { EXPECT_GT(tree_->count("tests/tree/tree_test.cc"), 0u); }
TEST_F(TreeTest, TopLevelIsFixed) { EXPECT_EQ(Text(CheckTopLevel(*tree_)), ""); }
TEST_F(TreeTest, EveryFolderHasAReadme) { EXPECT_EQ(Text(CheckReadmes(*tree_)), ""); }
TEST_F(TreeTest, NamesSaySomething) { EXPECT_EQ(Text(CheckNames(*tree_)), ""); }
TEST_F(TreeTest, FoldersIncludeInOneDirection) { EXPECT_EQ(Text(CheckFolderIncludes(*tree_)), ""); }
TEST_F(TreeTest, LibrariesStayWhereTheyBelong) {
  EXPECT_EQ(Text(CheckLibraryIncludes(*tree_)), "");
}
TEST_F(TreeTest, NoFileIsDead) { EXPECT_EQ(Text(CheckNoDeadFile(*tree_)), ""); }
TEST_F(TreeTest, DocumentedPathsExist) { EXPECT_EQ(Text(CheckDocumentedPaths(*tree_)), ""); }
TEST_F(TreeTest, LinesAreShort) { EXPECT_EQ(Text(CheckLineLength(*tree_)), ""); }
TEST_F(TreeTest, NoTestWaitsForTimeToPass) { EXPECT_EQ(Text(CheckNoSleepInTests(*tree_)), ""); }
TEST_F(TreeTest, NoPathOfOneMachine) { EXPECT_EQ(Text(CheckNoMachinePath(*tree_)), ""); }
TEST_F(TreeTest, NoRegistryHost) { EXPECT_EQ(Text(CheckNoRegistryHost(*tree_)), ""); }
TEST_F(TreeTest, NoLeftoverMark) { EXPECT_EQ(Text(CheckNoLeftoverMark(*tree_)), ""); }

}  // namespace
}  // namespace tidemark::tree
