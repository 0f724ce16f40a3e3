// What a page of documentation shows, so that a test can run it as it stands there. Thread rule:
// safe from any thread.
#pragma once

#include <string>
#include <vector>

#include "tests/testing/file_text.h"

namespace tidemark::testing {

// The blocks behind ```LANGUAGE, in the order of the page.
inline std::vector<std::string> CodeBlocks(const std::string& page, const std::string& language) {
  std::vector<std::string> blocks;
  bool inside = false;
  bool wanted = false;
  for (const std::string& line : LinesOf(page)) {
    if (line.rfind("```", 0) != 0) {
      if (inside && wanted) blocks.back() += line + "\n";
      continue;
    }
    inside = !inside;
    wanted = inside && line == "```" + language;
    if (wanted) blocks.emplace_back();
  }
  return blocks;
}

// The lines that begin with the program `word`, without their comments.
inline std::vector<std::string> Commands(const std::string& page, const std::string& word) {
  std::vector<std::string> commands;
  for (const std::string& line : LinesOf(page)) {
    if (line.rfind(word + " ", 0) != 0) continue;
    const std::string command = line.substr(0, line.find("  #"));
    commands.push_back(command.substr(0, command.find_last_not_of(' ') + 1));
  }
  return commands;
}

}  // namespace tidemark::testing
