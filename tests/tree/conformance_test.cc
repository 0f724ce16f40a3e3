// The README says what is proven on which version, and the tests are what it says.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/testing/built_paths.h"
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

}  // namespace
}  // namespace tidemark::testing
