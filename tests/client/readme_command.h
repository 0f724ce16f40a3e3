// The commands that client/README.md shows, so that a test can run just those.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tests/testing/built_paths.h"

namespace tidemark::testing {

// The shell block below the line <!-- run: NAME -->; a script that fails when there is none.
inline std::string ReadmeCommand(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(SourceDir() / "client/README.md").rdbuf();
  const std::string readme = text.str();
  const std::string marker = "<!-- run: " + name + " -->\n```sh\n";
  const size_t at = readme.find(marker);
  if (at == std::string::npos) return "echo no such block in client/README.md >&2; exit 99";
  const size_t begin = at + marker.size();
  return readme.substr(begin, readme.find("```", begin) - begin);
}

}  // namespace tidemark::testing
