// Every rule can fail: a small clean tree gets one bad file at a time, and exactly the rule that it
// breaks objects.
#include "tests/tree/checks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/scratch_dir.h"

namespace tidemark::tree {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

Tree CleanTree() {
  return {
      {"CMakeLists.txt", "add_subdirectory(proto)"},
      {"README.md",
       "See `store/log.h`, [the store](store/README.md) and run `./tests/run --only unit`."},
      {".gitignore", "/build/"},
      {"proto/README.md", "The contract."},
      {"proto/CMakeLists.txt", "*.cc position.proto"},
      {"proto/position.h", "class Position;"},
      {"proto/position.cc", "#include \"proto/position.h\""},
      {"proto/position.proto", ""},
      {"store/README.md", "`log.h` and `libpq-fe.h`."},
      {"store/CMakeLists.txt", "*.cc"},
      {"store/log.h", "#include <rocksdb/db.h>\n#include \"proto/position.h\"\nclass Log {"},
      {"store/log.cc", "#include \"store/log.h\""},
      {"server/README.md", "The loop."},
      {"server/CMakeLists.txt", "*.cc"},
      {"server/main.cc", "#include \"store/log.h\"\nint main() {}"},
      {"tests/README.md", "Tests."},
      {"tests/CMakeLists.txt", "store *.cc"},
      {"tests/store/log_test.cc", "#include \"store/log.h\"\nTEST(Log, Works) {}"},
      {"tests/run", "ctest"},
      {"tests/fuzz/corpus/cursor/seed1", "tests/fuzz/corpus"},
      {"tests/fuzz/run", "tests/run tests/fuzz/corpus"},
      {"deploy/README.md", "`tests/fuzz/run`"},
  };
}

struct BadFile {
  std::string path;
  std::string content;
  std::string rule;
};

void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.rule << " in " << bad.path; }

class BadFileTest : public ::testing::TestWithParam<BadFile> {};

TEST(CleanTreeTest, BreaksNoRule) {
  for (const Violation& violation : CheckTree(CleanTree())) ADD_FAILURE() << violation.Text();
}

TEST_P(BadFileTest, BreaksItsRuleOnly) {
  Tree tree = CleanTree();
  tree[GetParam().path] = GetParam().content;
  EXPECT_THAT(CheckTree(tree), ElementsAre(AllOf(Field(&Violation::rule, GetParam().rule),
                                                 Field(&Violation::path, GetParam().path))))
      << GetParam().content;
}

const char kMain[] = "\nint main() {}";
const char kServerMain[] = "\n#include \"store/log.h\"\nint main() {}";

INSTANTIATE_TEST_SUITE_P(
    Every, BadFileTest,
    ::testing::Values(
        BadFile{"NOTES.md", "", "top-level"},
        BadFile{"store/main.cc", "#include \"server/limits.h\"" + std::string(kMain), "include"},
        BadFile{"proto/main.cc", "#include \"store/log.h\"" + std::string(kMain), "include"},
        BadFile{"server/main.cc", "#include <rocksdb/db.h>" + std::string(kServerMain), "library"},
        BadFile{"server/main.cc", "#include <libpq-fe.h>" + std::string(kServerMain), "library"},
        BadFile{"server/main.cc", "#include \"yaml-cpp/yaml.h\"" + std::string(kServerMain),
                "library"},
        BadFile{"store/main.cc", "#include <grpcpp/grpcpp.h>" + std::string(kMain), "library"},
        BadFile{"store/main.cc", "  #  include \"tidemark/v1/feed.grpc.pb.h\"" + std::string(kMain),
                "library"},
        BadFile{"store/main.cc", "#include <spdlog/spdlog.h>" + std::string(kMain), "library"},
        BadFile{"store/main.cc",
                "#include <openssl/evp.h>\n#include <gtest/gtest.h>" + std::string(kMain),
                "library"},
        BadFile{"store/unused.h", "", "dead file"},
        BadFile{"store/unused.cc", "int x;", "dead file"},
        BadFile{"store/deep/unused.cc", "int main() {}", "dead file"},
        BadFile{"store/forgotten.proto", "", "dead file"},
        BadFile{"deploy/forgotten.sh", "true", "dead file"},
        BadFile{"store/string_util.cc", "int main() {}", "name"},
        BadFile{"server/main.cc", "class FeedManager {\n};" + std::string(kServerMain), "name"},
        BadFile{"README.md", "Look at `store/nothing.h`.", "documented path"},
        BadFile{"README.md", "Look at [it](store/nothing.h).", "documented path"},
        BadFile{"README.md", "Look at `nothing.h`.", "documented path"},
        BadFile{"README.md", "```\n./deploy/nothing --now\n```", "documented path"},
        BadFile{"store/main.cc", std::string(121, '/') + kMain, "line length"},
        BadFile{"tests/store/log_test.cc", std::string("std::this_thread::slee") + "p_for(1s);",
                "sleep"},
        BadFile{"tests/run", std::string("slee") + "p 5", "sleep"},
        BadFile{"store/main.cc", std::string("// /hom") + "e/me/x" + kMain, "machine path"},
        BadFile{"tests/run", std::string("cd /wor") + "k/main", "machine path"},
        BadFile{"tests/run", std::string("curl https://regis") + "try.example.org/x",
                "registry host"},
        BadFile{"store/main.cc", std::string("// TO") + "DO" + kMain, "leftover"}));

TEST(MissingReadmeTest, IsNoticed) {
  Tree tree = CleanTree();
  tree.erase("server/README.md");
  EXPECT_THAT(CheckTree(tree), ElementsAre(Field(&Violation::rule, "readme")));
}

// The same from a folder on disk.
TEST(TreeOnDiskTest, ARocksDbHeaderInServerIsRefused) {
  testing::ScratchDir scratch("tree");
  auto write = [&](const std::string& path, const std::string& content) {
    std::filesystem::create_directories((scratch.path() / path).parent_path());
    std::ofstream(scratch.path() / path) << content;
  };
  for (const auto& [path, content] : CleanTree()) write(path, content);
  write("build/generated/junk.h", "");
  EXPECT_THAT(CheckTree(LoadTree(scratch.path()).value()), IsEmpty());
  write("server/main.cc", "#include <rocksdb/db.h>" + std::string(kServerMain));
  EXPECT_THAT(CheckTree(LoadTree(scratch.path()).value()),
              ElementsAre(Field(&Violation::rule, "library")));
}

}  // namespace
}  // namespace tidemark::tree
