#include "tests/testing/scratch_dir.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cstdio>
#include <system_error>

namespace tidemark::testing {

ScratchDir::ScratchDir(std::string_view label) {
  const char* root = getenv("TMPDIR");
  std::string name =
      fmt::format("{}/tm-{}-XXXXXX", root != nullptr && *root != '\0' ? root : "/tmp", label);
  if (mkdtemp(name.data()) == nullptr) {
    perror(name.c_str());
    abort();
  }
  path_ = name;
}

ScratchDir::~ScratchDir() {
  if (const char* keep = getenv("TIDEMARK_KEEP_SCRATCH"); keep != nullptr && *keep == '1') {
    fmt::print(stderr, "kept {}\n", path_.string());
    return;
  }
  std::error_code ignored;  // A leftover is untidy, never a reason to fail a test.
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tidemark::testing
