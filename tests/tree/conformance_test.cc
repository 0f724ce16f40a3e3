// The README says what is proven on which version, and the tests are what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <regex>

#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {
namespace {

// proves R62: no cell is empty, and no test is without an assertion. That each counted test passed
// on each version is for tests/run to say, which has run them.
TEST(ConformanceTest, TheTableOfWhatIsProvenIsThatOfTheTests) {
  const ScratchDir scratch("conformance");
  ProcessOptions options;
  options.argv = {(SourceDir() / "tests/conformance").string(), "--check"};
  options.output_dir = scratch.path();
  options.name = "conformance";
  const auto checked = RunCommand(options, std::chrono::seconds(60));
  EXPECT_TRUE(checked.ok()) << checked.status();
}

// A copy of what the table is made from, and a PostgreSQL that says no more than its version.
class RecordedLaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(scratch_ / "bin");
    ASSERT_TRUE(Shell(SourceDir(),
                      "find tests \\( -name '*.cc' -o -name '*.h' -o -name 'coverage*' -o -name "
                      "'conformance*' \\) -not -path '*/node_modules/*' -exec cp --parents -t " +
                          scratch_.path().string() + " {} + && cp README.md " +
                          scratch_.path().string())
                    .ok());
    std::filesystem::remove(scratch_ / "tests/conformance.ran");
    ASSERT_TRUE(Shell(scratch_.path(), "tests/conformance --write").ok());
  }

  absl::StatusOr<std::string> Shell(const std::filesystem::path& folder, const std::string& line) {
    ProcessOptions options;
    options.argv = {"/bin/sh", "-c", line};
    options.environment = {{"TIDEMARK_POSTGRES_BIN", (scratch_ / "bin").string()}};
    options.working_dir = folder;
    options.output_dir = scratch_.path();
    options.name = "shell" + std::to_string(++shells_);
    return RunCommand(std::move(options), std::chrono::seconds(60));
  }

  // A run in which one test of those that are counted passed, so it is not in order.
  absl::Status Ran(const std::string& version) {
    const std::string program = (scratch_ / "bin/postgres").string();
    std::ofstream(program) << "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n";
    std::filesystem::permissions(program, std::filesystem::perms(0755));
    std::ofstream(scratch_ / "results.xml")
        << "<testsuite><testcase name='end_to_end.CurrentStateTest.InPostgres' status='run'/>"
           "<testcase name='end_to_end.CurrentStateTest.InSqlite' status='fail'/></testsuite>";
    return Shell(scratch_.path(), "tests/conformance --ran newest results.xml").status();
  }

  std::string Readme() const { return FileText(scratch_ / "README.md"); }
  std::string Record() const { return FileText(scratch_ / "tests/conformance.ran"); }

  ScratchDir scratch_{"conformance"};
  int shells_ = 0;
};

const std::regex kSomeOfThem(R"(\| [1-9]\d* of \d+ proved \|\n)");

TEST_F(RecordedLaneTest, ItsColumnSaysThatNothingIsRecorded) {
  EXPECT_THAT(Readme(), ::testing::HasSubstr(" proved | not recorded |\n"));
  EXPECT_THAT(Readme(), ::testing::HasSubstr("no run is recorded"));
}

TEST_F(RecordedLaneTest, ItsColumnCountsWhatPassedAndIsStillTheSame) {
  EXPECT_FALSE(Ran("18.9").ok()) << "tests that are counted did not run";
  EXPECT_THAT(Record(), ::testing::HasSubstr("\npassed newest end_to_end.CurrentStateTest."
                                             "InPostgres "));
  EXPECT_THAT(Record(), ::testing::Not(::testing::HasSubstr("InSqlite")));
  EXPECT_THAT(Readme(), ::testing::HasSubstr("PostgreSQL 18 as recorded: 18.9, "));
  EXPECT_TRUE(std::regex_search(Readme(), kSomeOfThem)) << Readme();
  EXPECT_TRUE(Shell(scratch_.path(), "tests/conformance --check").ok());

  ASSERT_TRUE(Shell(scratch_.path(),
                    "sed -i 's/^TEST_F(CurrentStateTest, InPostgres) {/& ++changed;/' "
                    "tests/end_to_end/current_state_test.cc")
                  .ok());
  EXPECT_FALSE(Shell(scratch_.path(), "tests/conformance --check").ok());
  ASSERT_TRUE(Shell(scratch_.path(), "tests/conformance --write").ok());
  EXPECT_FALSE(std::regex_search(Readme(), kSomeOfThem)) << Readme();
}

TEST_F(RecordedLaneTest, AnotherVersionIsNotRecorded) {
  EXPECT_FALSE(Ran("17.3").ok());
  EXPECT_EQ(Record(), "");
  EXPECT_THAT(Readme(), ::testing::HasSubstr("no run is recorded"));
}

}  // namespace
}  // namespace tidemark::testing
