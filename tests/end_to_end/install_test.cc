// What `cmake --install` puts on a machine is what deploy/README.md says, and the unit starts it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/testing/built_paths.h"
#include "tests/testing/file_text.h"
#include "tests/testing/process.h"
#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(InstallTest, PutsProgramsUnitConfigurationAndSqlInPlace) {
  const ScratchDir scratch("install");
  const std::filesystem::path prefix = scratch / "usr";
  const auto run = [&](const std::string& name, std::vector<std::string> argv) {
    ProcessOptions options;
    options.argv = std::move(argv);
    options.name = name;
    options.output_dir = scratch.path();
    return RunCommand(std::move(options), std::chrono::seconds(60));
  };
  const auto installed =
      run("install", {"cmake", "--install", BuildDir().string(), "--prefix", prefix.string()});
  ASSERT_TRUE(installed.ok()) << installed.status();

  for (const char* program : {"tidemarkd", "tidemark", "logdump"}) {
    const auto helped = run(program, {(prefix / "bin" / program).string(), "--help"});
    EXPECT_TRUE(helped.ok()) << helped.status();
  }
  for (const char* file :
       {"tidemark.example.yaml", "sql/prepare_source.sql", "sql/current_state.sql",
        "sql/changelog/create.sql", "sql/changelog/remove.sql"}) {
    EXPECT_EQ(FileText(prefix / "share/tidemark" / file), FileText(SourceDir() / "deploy" / file))
        << file;
    EXPECT_NE(FileText(prefix / "share/tidemark" / file), "") << file;
  }
  EXPECT_TRUE(std::filesystem::exists(prefix / "share/doc/tidemark/RUNBOOK.md"));

  const std::filesystem::path unit = prefix / "lib/systemd/system/tidemark.service";
  EXPECT_THAT(LinesOf(FileText(unit)),
              Contains(fmt::format("ExecStart={} --config /etc/tidemark/tidemark.yaml",
                                   (prefix / "bin/tidemarkd").string())));
  EXPECT_THAT(LinesOf(FileText(unit)), Contains("ExecReload=/bin/kill -HUP $MAINPID"));
  // With the prefix of a package it is the file of the tree.
  EXPECT_THAT(LinesOf(FileText(SourceDir() / "deploy/tidemark.service")),
              Contains("ExecStart=/usr/bin/tidemarkd --config /etc/tidemark/tidemark.yaml"));
  // Of systemd itself, where the machine has it: every directive is known, every program is there.
  if (std::filesystem::exists("/usr/bin/systemd-analyze")) {
    const auto verified = run("unit", {"/usr/bin/systemd-analyze", "verify", unit.string()});
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_THAT(*verified, ::testing::Not(HasSubstr("tidemark.service:")));
  }
}

}  // namespace
}  // namespace tidemark::testing
