#include "tests/tree/checks.h"

#include <fmt/format.h>

namespace tidemark::tree {

std::string Violation::Text() const {
  return line == 0 ? fmt::format("{}: {}: {}", path, rule, what)
                   : fmt::format("{}:{}: {}: {}", path, line, rule, what);
}

void PrintTo(const Violation& violation, std::ostream* out) { *out << violation.Text(); }

Violations CheckTree(const Tree& tree) {
  Violations all;
  for (auto check :
       {CheckTopLevel, CheckReadmes, CheckNames, CheckFolderIncludes, CheckLibraryIncludes,
        CheckNoDeadFile, CheckDocumentedPaths, CheckLineLength, CheckNoSleepInTests,
        CheckNoMachinePath, CheckNoRegistryHost, CheckNoLeftoverMark}) {
    Violations found = check(tree);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace tidemark::tree
