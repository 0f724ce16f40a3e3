// Where the tree and what was built from it are, for tests that run programs or read files of the
// repository.
#pragma once

#include <filesystem>

namespace tidemark::testing {

std::filesystem::path SourceDir();

// BuildDir() / "server/tidemarkd" is the server that belongs to this test program.
std::filesystem::path BuildDir();

}  // namespace tidemark::testing
