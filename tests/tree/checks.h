// Every check takes a tree and returns what is wrong with it. Pure functions: no file is read here.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tests/tree/tree.h"

namespace tidemark::tree {

struct Violation {
  std::string rule;  // the name of the check
  std::string path;
  size_t line;  // 1-based; 0 is the whole file
  std::string what;

  std::string Text() const;
};

// For GoogleTest.
void PrintTo(const Violation& violation, std::ostream* out);

using Violations = std::vector<Violation>;

// Shape: names and places of files, and who may include what.
Violations CheckTopLevel(const Tree& tree);
Violations CheckReadmes(const Tree& tree);
Violations CheckNames(const Tree& tree);
Violations CheckFolderIncludes(const Tree& tree);
Violations CheckLibraryIncludes(const Tree& tree);

// References: nothing is dead, and what a document names is there.
Violations CheckNoDeadFile(const Tree& tree);
Violations CheckDocumentedPaths(const Tree& tree);

// Text: what no line may hold.
Violations CheckLineLength(const Tree& tree);
Violations CheckNoSleepInTests(const Tree& tree);
Violations CheckNoMachinePath(const Tree& tree);
Violations CheckNoRegistryHost(const Tree& tree);
Violations CheckNoLeftoverMark(const Tree& tree);

// All of them.
Violations CheckTree(const Tree& tree);

}  // namespace tidemark::tree
