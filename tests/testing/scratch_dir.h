// A folder that is removed with everything in it when its owner goes out of scope.
// Thread rule: constant after construction. Made under $TMPDIR (default /tmp) with a short name,
// since the path of a Unix socket in it must stay under 108 bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tidemark::testing {

class ScratchDir {
 public:
  // `label` shows in the folder's name. A folder that cannot be made ends the test program: no test
  // can go on without it.
  explicit ScratchDir(std::string_view label = "test");
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // With TIDEMARK_KEEP_SCRATCH=1 in the environment the folder stays, for a look at what a failed
  // test left behind.
 private:
  std::filesystem::path path_;
};

}  // namespace tidemark::testing
