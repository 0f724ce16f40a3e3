// The template that clusters are copied from, made by programs that only play PostgreSQL's.
#include "tests/testing/cluster_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/testing/scratch_dir.h"

namespace tidemark::testing {
namespace {

using std::filesystem::exists;
using std::filesystem::path;

class ClusterTemplateTest : public ::testing::Test {
 protected:
  ClusterTemplateTest() {
    std::filesystem::create_directories(bin_);
    WriteProgram("initdb", "mkdir -p $2/global && : > $2/global/pg_control && : > $2/PG_VERSION");
    WriteProgram("pg_resetwal", "exit 0");
    WriteProgram("postgres", "exit 0");
  }
  ~ClusterTemplateTest() override { std::filesystem::remove(TemplateOf(Cluster("none"))); }

  void WriteProgram(const std::string& name, const std::string& script) {
    std::ofstream(bin_ / name) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(bin_ / name, std::filesystem::perms::owner_all);
  }
  NewCluster Cluster(const std::string& name) {
    std::filesystem::create_directories(scratch_ / name);
    return {bin_, scratch_ / name, "", {}};
  }
  // A process that has ended.
  static pid_t DeadPid() {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, nullptr, 0);
    return pid;
  }

  ScratchDir scratch_{"template"};
  // Its path is in the key of the template: no other test has the same.
  const path bin_ = scratch_ / "bin";
};

TEST_F(ClusterTemplateTest, WhatAKilledProcessLeftIsRemovedAndNotCopiedInto) {
  const path made = TemplateOf(Cluster("first"));
  // One of them had the number that this process has now.
  const path own = fmt::format("{}.{}", made.string(), getpid());
  const path other = fmt::format("{}.{}", made.string(), DeadPid());
  std::filesystem::create_directories(made.parent_path());
  for (const path& left : {own, other}) std::ofstream(left) << "half of one";
  const absl::Status first = MakeCluster(Cluster("first"));
  ASSERT_TRUE(first.ok()) << first;
  EXPECT_TRUE(exists(made));
  EXPECT_FALSE(exists(own));
  EXPECT_FALSE(exists(other));
  const absl::Status second = MakeCluster(Cluster("second"));
  ASSERT_TRUE(second.ok()) << second;
  EXPECT_TRUE(exists(scratch_ / "second/data/PG_VERSION"));
}

TEST_F(ClusterTemplateTest, OtherArgumentsAndOtherBinariesAreAnotherTemplate) {
  const path made = TemplateOf(Cluster("any"));
  EXPECT_EQ(TemplateOf(Cluster("another")), made);
  NewCluster checked = Cluster("any");
  checked.initdb_arguments = {"--data-checksums"};
  EXPECT_NE(TemplateOf(checked), made);
  WriteProgram("postgres", "exit 0 # of a newer version");
  EXPECT_NE(TemplateOf(Cluster("any")), made);
}

}  // namespace
}  // namespace tidemark::testing
