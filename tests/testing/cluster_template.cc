#include "tests/testing/cluster_template.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>

#include "tests/testing/built_paths.h"
#include "tests/testing/process.h"

namespace tidemark::testing {
namespace {

constexpr std::chrono::seconds kInitDeadline{120};

absl::Status RunAs(const NewCluster& cluster, const std::string& name,
                   std::vector<std::string> argv) {
  ProcessOptions options;
  options.argv = std::move(argv);
  options.output_dir = cluster.scratch;
  options.name = name;
  options.user = cluster.user;
  options.working_dir = cluster.scratch;
  return RunCommand(std::move(options), kInitDeadline).status();
}

// All but where.
std::vector<std::string> InitArguments(const NewCluster& cluster) {
  std::vector<std::string> arguments = {"--username=postgres", "--auth=trust",
                                        "--no-sync",           "--no-instructions",
                                        "--encoding=UTF8",     "--locale=C.UTF-8"};
  arguments.insert(arguments.end(), cluster.initdb_arguments.begin(),
                   cluster.initdb_arguments.end());
  return arguments;
}

absl::Status Init(const NewCluster& cluster) {
  std::vector<std::string> argv = {cluster.bin_dir / "initdb", "--pgdata",
                                   cluster.scratch / "data"};
  const std::vector<std::string> arguments = InitArguments(cluster);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunAs(cluster, "initdb", std::move(argv));
}

// Another version at the same path is another file.
std::string BuildOf(const std::filesystem::path& program) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(program, failed);
  const auto written = std::filesystem::last_write_time(program, failed);
  return fmt::format("{} {} {}", program.string(), bytes, written.time_since_epoch().count());
}

// What processes left that were killed while they made the template.
void RemoveLeftovers(const std::filesystem::path& made) {
  const std::string prefix = made.filename().string() + ".";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(made.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const pid_t maker = std::atoi(name.c_str() + prefix.size());
    if (maker == getpid() || !IsAlive(maker)) std::filesystem::remove(entry.path(), ignored);
  }
}

absl::Status Tar(const NewCluster& cluster, std::vector<std::string> arguments) {
  ProcessOptions tar;
  tar.argv = {"tar", "--numeric-owner", "--directory", cluster.scratch / "data"};
  tar.argv.insert(tar.argv.end(), arguments.begin(), arguments.end());
  tar.output_dir = cluster.scratch;
  tar.name = "tar";
  return RunCommand(std::move(tar), kInitDeadline).status();
}

// One file: to read a thousand costs as much as to write them.
absl::Status Unpack(const std::filesystem::path& made, const NewCluster& cluster) {
  std::error_code failed;
  std::filesystem::create_directory(cluster.scratch / "data", failed);
  if (failed) return absl::InternalError(cluster.scratch.string() + ": " + failed.message());
  return Tar(cluster, {"--extract", "--touch", "--file", made});
}

// Two clusters with one identifier would pass for one, which is what some tests are about. The
// first field of pg_control is the identifier; pg_resetwal makes the rest of the files agree with
// it.
absl::Status Renumber(const NewCluster& cluster) {
  std::random_device random;
  const uint64_t identifier = (uint64_t{random()} << 32 | random()) >> 1;
  std::fstream control(cluster.scratch / "data/global/pg_control",
                       std::ios::in | std::ios::out | std::ios::binary);
  control.write(reinterpret_cast<const char*>(&identifier), sizeof identifier);
  control.close();
  if (!control) return absl::InternalError("pg_control could not be written");
  return RunAs(cluster, "pg_resetwal",
               {cluster.bin_dir / "pg_resetwal", "--force", cluster.scratch / "data"});
}

}  // namespace

// What makes another cluster of it: the binaries, who owns it, and the arguments.
std::filesystem::path TemplateOf(const NewCluster& cluster) {
  std::string key = fmt::format("{}\n{}", BuildOf(cluster.bin_dir / "postgres"), cluster.user);
  for (const std::string& argument : InitArguments(cluster)) key += "\n" + argument;
  return BuildDir() / "clusters" / fmt::format("{:016x}.tar", std::hash<std::string>()(key));
}

absl::Status MakeCluster(const NewCluster& cluster) {
  const std::filesystem::path made = TemplateOf(cluster);
  if (std::filesystem::exists(made)) {
    if (absl::Status status = Unpack(made, cluster); !status.ok()) return status;
    return Renumber(cluster);
  }
  if (absl::Status status = Init(cluster); !status.ok()) return status;
  // Under a name of its own first: it is there whole, or not at all. Another process may have been
  // faster.
  const std::filesystem::path begun = fmt::format("{}.{}", made.string(), getpid());
  std::error_code failed;
  std::filesystem::create_directories(made.parent_path(), failed);
  if (failed) return absl::InternalError(made.parent_path().string() + ": " + failed.message());
  RemoveLeftovers(made);
  // Without its WAL, half of its bytes: pg_resetwal makes another of each copy.
  absl::Status packed =
      Tar(cluster, {"--create", "--exclude", "./pg_wal/0*", "--file", begun, "."});
  if (!packed.ok()) return packed;
  std::filesystem::rename(begun, made, failed);
  if (failed) std::filesystem::remove(begun, failed);
  return absl::OkStatus();
}

}  // namespace tidemark::testing
