#include "tests/testing/built_paths.h"

namespace tidemark::testing {

std::filesystem::path SourceDir() { return TIDEMARK_SOURCE_DIR; }

std::filesystem::path BuildDir() { return TIDEMARK_BUILD_DIR; }

}  // namespace tidemark::testing
